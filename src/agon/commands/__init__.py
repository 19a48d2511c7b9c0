"""The commands, one module each: parse the arguments, call a room, print the result."""

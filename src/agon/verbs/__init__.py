"""One module per verb of the command line; see `agon.cli`."""

"""A rehearsal: whole steps of a recipe at full size, with random weights, timed and weighed phase by phase."""

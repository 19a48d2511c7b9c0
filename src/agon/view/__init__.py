"""The duel viewer: an index of a run's duels, queries over it, a local page and the same in a terminal."""

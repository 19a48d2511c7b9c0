"""What a run is on disk: the only room that reads or writes a run's files."""

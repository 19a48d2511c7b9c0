"""Reports: runs, evaluations and tasks turned into something to read, as tables, charts, quotes and pages."""

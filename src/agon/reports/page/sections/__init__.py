"""The sections of the report: each makes its part of the page from the groups of runs, or nothing."""

"""report.html of a run and of a sweep."""

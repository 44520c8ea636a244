"""Report pages (report.html) of runs and sweeps."""

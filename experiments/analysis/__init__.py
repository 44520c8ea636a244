"""Statistics, comparisons, tables, figures and reports, all from the records in run folders."""

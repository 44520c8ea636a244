"""Experiments that do more than learn and evaluate: recall of search, planted truth, redundancy of edges."""

"""Experiments beyond learning and evaluating: recall of search, planted truth, redundancy of edges."""

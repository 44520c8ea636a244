"""Estimates of the cost of a run or a sweep, before any of it is spent."""

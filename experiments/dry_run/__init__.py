"""Counts the calls and tokens of a run or a sweep before it starts, without a model."""

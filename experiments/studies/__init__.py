"""Experiments of other kinds than learning and evaluating."""

"""Scores of answers, rankings and paths; pure functions."""

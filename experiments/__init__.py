"""Runs and what becomes of them; the only place that knows labels."""

"""The plan of a run: everything that a configuration resolves to, checked once."""

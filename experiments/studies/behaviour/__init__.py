"""A study of one agent: the effect of irrelevant evidence and wrong colleagues on its answers."""

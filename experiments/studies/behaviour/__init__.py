"""A study of a model as one agent: the effect of irrelevant evidence and of wrong colleagues on its answers."""

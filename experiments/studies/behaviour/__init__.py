"""How a model behaves as one agent: what irrelevant evidence and colleagues who are wrong make of its answers."""

"""How an answer, a ranking or a path is scored; pure functions."""

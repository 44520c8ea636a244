"""Learner of the communication graph: sampling, estimators, the objective, pruning rules."""

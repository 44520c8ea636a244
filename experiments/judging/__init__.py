"""Judging: a model grades answers against gold (Acc*)."""

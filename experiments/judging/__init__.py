"""A model grades answers against gold (Acc*)."""

"""The testbed with known truth: an opinion model and measurements of learners in it."""

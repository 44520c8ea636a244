"""The testbed with known truth: an opinion model, and how well learners do in it."""

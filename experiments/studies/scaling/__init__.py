"""The discussions that learners need to rank a liar's edges, by the size of the team (`job=scaling`)."""

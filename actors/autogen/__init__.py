"""Our agents in AutoGen teams, and AutoGen's agents in ours."""

"""Our agents in AutoGen teams, and AutoGen agents in our teams."""

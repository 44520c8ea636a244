"""Many runs that share their agents, on Ray Tune."""

"""One run while its agents live: launch, learn, evaluate, conclude."""

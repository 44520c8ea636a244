"""What runs and sweeps take in time, tokens, memory, disk and money: a model, and its fit on measured runs."""

"""Zero-sum game of attacks and defences, with an attacker that knows the defence."""

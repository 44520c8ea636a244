"""Systems of other papers; `tests/instruments/fidelity/steps/` compares each step with its authors' code."""

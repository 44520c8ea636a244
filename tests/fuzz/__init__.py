"""Generators of hostile input: small in the suite, and for as long as one likes by hand.

    python -m pytest -n 0 tests/fuzz --hypothesis-profile=long

Profiles are in `tests/conftest.py`; `--hypothesis-seed=<n>` repeats a run.
"""

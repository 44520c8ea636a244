"""Generates hostile input: a few examples of each kind in the suite, many more by hand.

    python -m pytest -n 0 -m "not vllm" tests/fuzz -k sweep --hypothesis-profile=long

Profiles are in `tests/conftest.py`; `--hypothesis-seed=<n>` repeats a run. Tests whose examples are whole runs are
marked `slow`.
"""

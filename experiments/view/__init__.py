"""Shows a folder of runs in a browser, also while they go on: `python run.py view=runs`."""

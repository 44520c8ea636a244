"""Shows a folder of runs in a browser, also during a run: `python run.py view=runs`."""

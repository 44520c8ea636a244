"""The one exception that a user's mistake raises."""


class UserError(Exception):
    """Bad input: its text is one line that says what was wrong, what was expected and what to do.

    `run.py` prints that line and exits with code 2, without a traceback.
    """

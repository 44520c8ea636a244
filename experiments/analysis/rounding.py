"""Numbers as files hold them: a file must not depend on the last bit of a sum."""

from collections.abc import Mapping
from typing import Any

DIGITS = 6  # enough for any table, few enough to hide floating-point error


def rounded(value: Any) -> Any:
    """Rounds all numbers in a value to six digits, without minus zero. None, text and whole numbers stay."""
    if isinstance(value, Mapping):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    # A bool is an int to Python.
    if value is None or isinstance(value, (int, str)):
        return value
    # Adding 0.0 turns -0.0 into 0.0.
    return round(float(value), DIGITS) + 0.0

"""The words by which replies are read, by language: `words.toml`."""

import re
import tomllib
from importlib.resources import files

_TABLES = tomllib.loads(files(__package__).joinpath("words.toml").read_text(encoding="utf-8"))


def words(table: str, name: str) -> list[str]:
    """Returns the words of all languages. Empty where the table has none of this name."""
    by_language: dict[str, list[str]] = _TABLES[table].get(name, {})
    return [word for language_words in by_language.values() for word in language_words]


def one_of_words(table: str, name: str) -> str:
    """Returns a pattern for any of the words, the longest first."""
    longest_first = sorted(words(table, name), key=len, reverse=True)
    return "(?:" + "|".join(re.escape(word).replace(r"\*", r"\w*") for word in longest_first) + ")"

"""The words by which replies are read, by language: `words.toml`."""

import re
import tomllib
from importlib.resources import files

_TABLES = tomllib.loads(files(__package__).joinpath("words.toml").read_text(encoding="utf-8"))


def words(table: str, name: str) -> list[str]:
    """Returns the words of all languages. Empty where the table has none of this name."""
    by_language: dict[str, list[str]] = _TABLES[table].get(name, {})
    return [word for language_words in by_language.values() for word in language_words]


def pattern(template: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    """Compiles a pattern in which `<table.name>` matches any word of a table. A star in a word is any letters."""
    return re.compile(re.sub(r"<(\w+)\.(\w+)>", _any_word, template), flags)


def _any_word(place: re.Match[str]) -> str:
    longest_first = sorted(words(place[1], place[2]), key=len, reverse=True)
    alternatives = "|".join(re.escape(word).replace(r"\*", r"\w*") for word in longest_first)
    return f"(?:{alternatives})"

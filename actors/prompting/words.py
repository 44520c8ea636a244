"""The words by which replies are read, by language: `words.toml`."""

import re
import tomllib
from importlib.resources import files
from itertools import chain

_TABLES = tomllib.loads(files(__package__).joinpath("words.toml").read_text(encoding="utf-8"))


def words(table: str, name: str) -> list[str]:
    """Returns the words of all languages. Empty where the table has none of this name."""
    by_language: dict[str, list[str]] = _TABLES[table].get(name, {})
    return list(chain.from_iterable(by_language.values()))


def pattern(template: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    """Compiles a pattern in which `<table.name>` matches any word of a table. A star in a word is any letters."""
    return re.compile(re.sub(r"<(\w+)\.(\w+)>", _any_word, template), flags)


def _any_word(place: re.Match[str]) -> str:
    longest_first = sorted(words(place[1], place[2]), key=len, reverse=True)
    alternatives = "|".join(map(re.escape, longest_first))
    return f"(?:{alternatives})".replace(r"\*", r"\w*")

"""Redacts keys in replies and errors: endpoints quote requests, unchanged or escaped.

A reply is redacted twice. Before it is cached, when JSON is decoded: escapes of URLs, HTML and programs, base64 and
hexadecimal digits remain, and are searched as well. Then in the message that was read from it (`without_keys`), since
reading deletes text and may join the parts of a key. Whatever is written passes the gate of `actors.secrets` as well.
"""

import base64
import html
import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from actors.prompting.own_words import own_words
from actors.prompting.safe_text import one_line
from actors.secrets import KEY, KEY_CHARACTERS, order_longest_first

T = TypeVar("T")

LINE_CHARACTERS = 600
_TAG = re.compile(r"<[^<>]*>")
_MARKS = re.compile(r"[\W_]+")
# Invisible characters, which parsing removes: between a key's characters they would hide it.
_UNSEEN = "[\0\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad]*"


class Redaction:
    """Redacts one key; an empty one changes nothing."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._pattern: re.Pattern[str] | None = None
        self._ends: tuple[str, ...] = ()
        if len(key) < KEY_CHARACTERS:
            return
        self._ends = (key[:6], key[-4:])
        patterns = [_UNSEEN.join(map(_letter_pattern, key)), f"(?i:{key.encode().hex()})"]
        for offset in range(3):  # in base64
            encoded = base64.b64encode(b"\0" * offset + key.encode()).decode().rstrip("=")
            # Without the characters that also depend on the text around the key.
            inner = encoded[-(-8 * offset // 6) : (offset + len(key)) * 8 // 6]
            patterns += {re.escape(inner), re.escape(inner.replace("+", "-").replace("/", "_"))}
        self._pattern = re.compile("|".join(patterns))

    def text(self, text: str) -> str:
        """Returns the text without the key, in linear time.

        Of a text in which the key is split by what a reader removes (thoughts, citations, tags, marks), nothing is
        kept.
        """
        if not self._pattern:
            return text
        text = self._pattern.sub(KEY, text)
        for size in range(len(self._key) - 1, KEY_CHARACTERS - 1, -1):
            if text.endswith(self._key[:size]):  # cut off within the key
                return text[:-size] + KEY
        letters = _MARKS.sub("", self._key)
        for reading in (text, _without_tags(text), _without_tags(own_words(text, _is_no_field))):
            if letters in _MARKS.sub("", reading):
                return KEY
        return text

    def line(self, text: str) -> str:
        """Returns one line of bounded length without the key, or the ends that an endpoint quotes of it."""
        text = self.text(text)
        if self._key:
            text = text.replace(self._key, KEY)
        words = one_line(text).split(" ")
        for number, word in enumerate(words):
            # Endpoints quote a key as `sk-abc***wxyz`, and its ends are secret, too.
            if any(part in word for part in ("***", *self._ends)):
                words[number] = KEY
        return " ".join(words)[:LINE_CHARACTERS]


def _letter_pattern(letter: str) -> str:
    """Matches a letter plain, and as in URLs (%73), programs (\\x73, \\u0073, \\/) and HTML (&#115;)."""
    code = ord(letter)
    digits = re.sub("[a-f]", lambda digit: f"[{digit[0]}{digit[0].upper()}]", f"{code:02x}")
    escapes = rf"\\{{1,8}}(?:u00{digits}|u\{{0{{0,4}}{digits}\}}|x{digits})"
    entity = rf"&\#(?:0{{0,5}}{code}|[xX]0{{0,4}}{digits});"
    return rf"(?:\\{{0,8}}{re.escape(letter)}|%(?:25){{0,4}}{digits}|{escapes}|{entity})"


def _without_tags(text: str) -> str:
    return html.unescape(_TAG.sub("", text))


def _is_no_field(name: str) -> bool:
    return False


_redactions: dict[str, Redaction] = {}  # of all keys that this process knows


def keep_secret(keys: Iterable[str]) -> None:
    """Makes `without_keys` remove these keys from now on."""
    for key in keys:
        if len(key) >= KEY_CHARACTERS and key not in _redactions:
            _redactions[key] = Redaction(key)
    order_longest_first(_redactions)


def without_keys(record: T) -> T:
    """Returns a record whose texts hold no key that this process knows. `record` is a dataclass, a tuple or a text."""
    return _without_keys(record) if _redactions else record


def _without_keys(record: Any) -> Any:
    if isinstance(record, str):
        text = record
        for redaction in _redactions.values():
            text = redaction.text(text)
        return record if text == record else text  # a member of an enumeration stays one
    if isinstance(record, tuple):
        return tuple(map(_without_keys, record))
    if is_dataclass(record) and not isinstance(record, type):
        texts = {field.name: _without_keys(getattr(record, field.name)) for field in fields(record)}
        return replace(record, **texts)
    return record

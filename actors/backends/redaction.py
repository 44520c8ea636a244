"""Takes an endpoint's key out of what it returns: endpoints quote what they were sent, as it is or escaped.

Replies are redacted after they were decoded, so that no escape of JSON hides a key; those of URLs, HTML and programs,
which decoding leaves, and base64 and hexadecimal digits are looked for as well.
"""

from __future__ import annotations

import base64
import re

from actors.prompting.text import one_line

KEY = "[key]"
LINE_CHARACTERS = 600
# A shorter key is a word such as EMPTY, for an endpoint that wants none, and may be part of replies.
KEY_CHARACTERS = 12
# Characters that are not seen, and that reading a reply takes out: between its letters they would hide a key.
_UNSEEN = "[\0\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad]*"


class Redaction:
    """Redacts one key; an empty one changes nothing."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._long = len(key) >= KEY_CHARACTERS
        self._pattern = re.compile("|".join([_UNSEEN.join(map(_letter, key)), *_encoded(key)])) if self._long else None

    def text(self, text: str) -> str:
        """The text without the key. Takes time in proportion to its length."""
        return self._pattern.sub(KEY, text) if self._pattern else text

    def line(self, text: str) -> str:
        """One line of bounded length without the key, also where it is quoted with its middle starred out."""
        text = self.text(text)
        if self._key:
            text = text.replace(self._key, KEY)
        # Word by word: endpoints quote a key as `sk-abc***wxyz`, and its ends are secret, too.
        return " ".join(KEY if self._tells(word) else word for word in one_line(text).split(" "))[:LINE_CHARACTERS]

    def _tells(self, word: str) -> bool:
        return "***" in word or (self._long and (self._key[:6] in word or self._key[-4:] in word))


def _letter(letter: str) -> str:
    """A pattern of one letter, as it is and as URLs (%73), programs (\\x73, \\u0073, \\/) and HTML (&#115;) have it."""
    code = ord(letter)
    digits = f"{code:02x}"
    hexadecimal = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)
    escapes = rf"\\{{1,8}}(?:u00{hexadecimal}|u\{{0{{0,4}}{hexadecimal}\}}|x{hexadecimal})"
    html = rf"&\#(?:0{{0,5}}{code}|[xX]0{{0,4}}{hexadecimal});"
    return rf"(?:\\{{0,8}}{re.escape(letter)}|%(?:25){{0,4}}{hexadecimal}|{escapes}|{html})"


def _encoded(key: str) -> list[str]:
    """Patterns of the key in base64, wherever in an encoded text it begins, and in hexadecimal digits."""
    patterns = [f"(?i:{key.encode().hex()})"]
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + key.encode()).decode().rstrip("=")
        # Without the letters that also depend on what stands before and after the key.
        inner = whole[-(-8 * before // 6) : (before + len(key)) * 8 // 6]
        patterns += {re.escape(inner), re.escape(inner.replace("+", "-").replace("/", "_"))}
    return patterns

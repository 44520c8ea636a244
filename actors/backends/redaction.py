"""Redacts an endpoint's key in its replies and errors: endpoints quote requests, unchanged or escaped.

Replies are redacted after JSON is decoded. Escapes of URLs, HTML and programs, base64 and hexadecimal digits remain,
and are searched as well.
"""

import base64
import html
import re

from actors.prompting.safe_text import one_line

KEY = "[key]"
LINE_CHARACTERS = 600
# A shorter key is a word such as EMPTY, for an endpoint that needs none, and may occur in replies.
KEY_CHARACTERS = 12
_TAG, _MARKS = re.compile(r"<[^<>]*>"), re.compile(r"[\W_]+")
# Invisible characters, which parsing removes: between a key's characters they would hide it.
_UNSEEN = "[\0\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad]*"


class Redaction:
    """Redacts one key; an empty one changes nothing."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._long = len(key) >= KEY_CHARACTERS
        # Plain and as in URLs (%73), programs (\\x73, \\u0073, \\/) and HTML (&#115;), hexadecimal, and base64.
        letters = []
        for letter in key:
            code = ord(letter)
            hexadecimal = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{code:02x}")
            escapes = rf"\\{{1,8}}(?:u00{hexadecimal}|u\{{0{{0,4}}{hexadecimal}\}}|x{hexadecimal})"
            html = rf"&\#(?:0{{0,5}}{code}|[xX]0{{0,4}}{hexadecimal});"
            letters.append(rf"(?:\\{{0,8}}{re.escape(letter)}|%(?:25){{0,4}}{hexadecimal}|{escapes}|{html})")
        patterns = [_UNSEEN.join(letters), f"(?i:{key.encode().hex()})"]
        for before in range(3):  # offsets in base64
            whole = base64.b64encode(b"\0" * before + key.encode()).decode().rstrip("=")
            # Without the characters that also depend on the text around the key.
            inner = whole[-(-8 * before // 6) : (before + len(key)) * 8 // 6]
            patterns += {re.escape(inner), re.escape(inner.replace("+", "-").replace("/", "_"))}
        self._pattern = re.compile("|".join(patterns)) if self._long else None

    def text(self, text: str) -> str:
        """Returns the text without the key, in linear time.

        Readers remove tags and marks later: of a text in which these split the key, nothing is kept.
        """
        if not self._pattern:
            return text
        text = self._pattern.sub(KEY, text)
        for size in range(len(self._key) - 1, KEY_CHARACTERS - 1, -1):
            if text.endswith(self._key[:size]):  # cut off within the key
                return text[:-size] + KEY
        bare = _MARKS.sub("", self._key)
        plain = (text, html.unescape(_TAG.sub("", text)))
        return KEY if any(bare in _MARKS.sub("", each) for each in plain) else text

    def line(self, text: str) -> str:
        """Returns one line of bounded length without the key, or the ends that an endpoint quotes of it."""
        text = self.text(text)
        if self._key:
            text = text.replace(self._key, KEY)
        # Word by word: endpoints quote a key as `sk-abc***wxyz`, and its ends are secret, too.
        ends = (self._key[:6], self._key[-4:]) if self._long else ()
        line = (KEY if any(part in word for part in ("***", *ends)) else word for word in one_line(text).split(" "))
        return " ".join(line)[:LINE_CHARACTERS]

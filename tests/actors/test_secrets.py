"""Of keys that contain each other, no part is left."""

import pytest

from actors import secrets
from actors.backends import redaction

SHORT = "0123456789abcdef"
LONG = f"sk-of-the-tests-{SHORT}"


@pytest.mark.parametrize("keys", [(SHORT, LONG), (LONG, SHORT)], ids=["short first", "long first"])
def test_a_key_that_contains_another_one_is_removed_whole(
    keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "_forms", {})
    monkeypatch.setattr(secrets, "_by_variable", {})
    monkeypatch.setattr(redaction, "_redactions", {})
    for number, key in enumerate(keys):
        secrets.keep({f"KEY_{number}": key})
        redaction.keep_secret([key])
    text = f"It is {LONG}, or {SHORT}."
    assert secrets.masked(text) == f"It is {secrets.KEY}, or {secrets.KEY}."
    assert secrets.masked(text.encode()) == f"It is {secrets.KEY}, or {secrets.KEY}.".encode()
    assert redaction.without_keys(text) == f"It is {secrets.KEY}, or {secrets.KEY}."

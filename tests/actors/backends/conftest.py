"""Endpoints are asked again at once."""

import pytest

from actors.backends import openai_endpoint


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_PAUSE_S", "FIRST_WAIT_S"):
        monkeypatch.setattr(openai_endpoint, name, 0.005)

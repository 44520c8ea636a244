"""Which tokens make up a reply's text."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.prompting.likelihood import of_text, pieces


def decode(ids: Sequence[int]) -> str:
    return bytes(ids).decode(errors="replace")


def test_tokens_of_a_thought_and_of_the_turn_s_end_are_none_of_the_text_s() -> None:
    listed = [("<think>", -2.0), ("yes</think>", -1.0), ("ye", -0.5), ("", -0.1), ("s", -0.2), ("<end>", 0.0)]
    assert of_text(listed, "yes") == (("ye", -0.5), ("", -0.1), ("s", -0.2))


def test_a_text_that_no_run_of_whole_tokens_is_has_none() -> None:
    for tokens, text in ([(" yes", -1.0)], "yes"), ([("no", -1.0)], "yes"), ([("yes", -1.0)], ""):
        assert of_text(tokens, text) == ()


def test_a_character_falls_to_the_token_that_completes_it() -> None:
    ids = list("aé!".encode())
    assert pieces(decode, ids, "aé!") == ["a", "", "é", "!"]


@given(st.binary(max_size=12))
@settings(deadline=None)
def test_pieces_of_whatever_bytes_join_to_the_text(ids: bytes) -> None:
    found = pieces(decode, list(ids), decode(ids))
    assert len(found) == len(ids)
    assert "".join(found) == decode(ids)

"""Keeps a reply to a JSON schema with xgrammar: at each token, those that would break the schema are ruled out."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from actors.prompting.form import SEPARATORS

CACHE_BYTES = 2**28


class Schemas:
    """Compiles schemas for one tokenizer, and keeps what it compiled.

    Args:
        vocabulary: the model's number of tokens, which may be larger than the tokenizer's.
        stops: the tokens that may end a reply that is complete.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, stops: Set[int]) -> None:
        import xgrammar

        tokens = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocabulary, stop_token_ids=sorted(stops))
        self._vocabulary = vocabulary
        self._compiler = xgrammar.GrammarCompiler(tokens, cache_limit_bytes=CACHE_BYTES)

    def matcher(self, schema: str) -> SchemaMatcher:
        """Follows one reply. Raises ValueError for a schema that cannot be compiled."""
        try:
            compiled = self._compiler.compile_json_schema(schema, any_whitespace=False, separators=SEPARATORS)
            return SchemaMatcher(compiled, self._vocabulary)
        except RuntimeError as error:
            raise ValueError(f"xgrammar cannot compile the JSON schema: {error}") from error


class SchemaMatcher:
    """The state of one reply within its schema."""

    def __init__(self, compiled: Any, vocabulary: int) -> None:
        import xgrammar

        self._matcher = xgrammar.GrammarMatcher(compiled)
        self._allowed = xgrammar.allocate_token_bitmask(1, vocabulary)

    def rule_out(self, logits: Any) -> None:
        """Sets the logits (float32 [vocabulary], on the CPU) of tokens that cannot come next to minus infinity."""
        import xgrammar

        self._matcher.fill_next_token_bitmask(self._allowed)
        xgrammar.apply_token_bitmask_inplace(logits.unsqueeze(0), self._allowed)

    def accept(self, token: int) -> None:
        """Takes note of the token that was chosen."""
        if not self._matcher.accept_token(token):
            raise RuntimeError(f"xgrammar does not take the token {token} that it allowed")


def load_schemas(tokenizer: Any, vocabulary: int, stops: Set[int]) -> Schemas | None:
    """None where xgrammar is missing."""
    try:
        return Schemas(tokenizer, vocabulary, stops)
    except ModuleNotFoundError:
        return None

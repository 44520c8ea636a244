"""Cuts the least relevant evidence from a prompt that does not fit the model's context."""

from __future__ import annotations

from collections.abc import Collection
from math import ceil

from actors.messages import Completion, Kind, Modality, Question, Request, Source
from actors.prompting.prompt import evidence_for

SHARE = 0.25  # of the remaining sources, cut at a time where the model does not report the size of the excess


def least_relevant(question: Question, reads: Modality, cut: Collection[str]) -> list[Source]:
    """Returns the sources that can still be cut, worst rank first; passages and pictures have ranks of their own.

    At equal rank the passage goes before the picture: pictures come first in the prompt, and the prefix cache still
    serves those that stay.
    """
    left = [source for source in evidence_for(question, reads) if source.id not in cut]
    pictures = [source for source in left if source.kind is Kind.IMAGE]
    texts = [source for source in left if source.kind is not Kind.IMAGE]
    # Sorted in reverse, 1 puts a passage before the picture of the same rank.
    ranked = [*((rank, 1, text) for rank, text in enumerate(texts)), *((rank, 0, p) for rank, p in enumerate(pictures))]
    return [source for _, _, source in sorted(ranked, key=lambda r: r[:2], reverse=True)]


def cut_more(
    question: Question, reads: Modality, cut: Collection[str], request: Request, completion: Completion
) -> list[str]:
    """Returns the ids of the sources to cut next from a request that was too long; none when no source is left.

    As many as the excess is estimated to need: the next attempt shows whether that was enough.
    """
    order = least_relevant(question, reads, cut)
    excess = completion.prompt_tokens - completion.limit_tokens if completion.limit_tokens > 0 else 0
    if excess <= 0:
        # `ceil` takes at least one while any is left, so that attempts end.
        return [source.id for source in order[: ceil(SHARE * len(order))]]
    characters = max(1, len(request.system) + len(request.shared) + len(request.own))
    # Both estimates are high rather than low, so that no more is cut than necessary.
    per_character = 1.25 * completion.prompt_tokens / characters
    # Four characters make about one token; further tokens belong to the pictures.
    per_picture = max(1.0, completion.prompt_tokens - characters / 4) / max(1, len(request.images))
    ids: list[str] = []
    for source in order:
        if excess <= 0:
            break
        ids.append(source.id)
        picture = source.kind is Kind.IMAGE
        excess -= ceil(per_picture if picture else per_character * (len(source.title) + len(source.text)))
    return ids

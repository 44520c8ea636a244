"""The rows of CrisisMMD's splits."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import TypeAdapter

from experiments.datasets.layouts.fields import Id, Label, Text


@dataclass(frozen=True, slots=True)
class Post:
    event_name: Label
    tweet_id: Id
    image_id: Id
    tweet_text: Text
    image: Text
    label: Label


POST = TypeAdapter(Post)

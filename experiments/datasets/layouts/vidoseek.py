"""The questions of ViDoSeek's file, elements of its list `examples`."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter

from experiments.datasets.layouts.fields import Answer, Id, Label, Many, Said


@dataclass(frozen=True, slots=True)
class About:
    file_name: Id
    reference_page: Many[int]
    source_type: Label
    query_type: Label


@dataclass(frozen=True, slots=True)
class Example:
    meta_info: About
    uid: Id
    query: Said
    reference_answer: Answer


EXAMPLE = TypeAdapter(Example)
# What a vision-language model recognised, in a layout of its own.
RECOGNISED: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)

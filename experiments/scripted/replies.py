"""Writes replies in the form that a turn asks for."""

from collections.abc import Iterable
from functools import cache
from random import Random

from actors.messages import Field, FieldKind, Role, Turn, Value, derive_seed
from actors.prompting.form import form_of
from experiments.scripted.speaker import Reply, ScriptedSpeaker

LEFT_OUT = 0.3  # share of optional fields
ANY_NUMBER = 8  # lines of a field that sets no number, in a reply with as many as it may have


@cache
def improvised(seed: int) -> Reply:
    """Replies with arbitrary values: any choice, or words of the question or of its evidence."""

    def reply(turn: Turn) -> str:
        # By seed and turn, so that the same turn always gets the same reply.
        random = Random(derive_seed("improvised", seed, turn.id))
        lines = []
        for field in form_of(turn).fields:
            if field.optional and random.random() < LEFT_OUT:
                continue
            count = 1
            if field.many:
                count = random.randint(1, 3)
            for _ in range(count):
                lines.append(f"{field.name}: {value_of(field, turn, random)}")
        return "\n".join(lines)

    return reply


@cache
def stubborn(place: int) -> Reply:
    """Replies with the first (0) or the last (-1) of the allowed values, and otherwise that it does not know.

    A reply has as many lines as the form permits, and asks for something new every time.
    """

    def reply(turn: Turn) -> str:
        if turn.task is None:
            return answered("unknown", 0.0)
        random = Random(derive_seed("stubborn", turn.id))
        lines = []
        for field in turn.task.fields:
            count = ANY_NUMBER if field.many else 1
            for number in range(count):
                if field.values:
                    value = field.values[place]
                else:
                    value = value_of(field, turn, random)
                    if field.value is Value.TEXT:
                        # Numbered, so that a method that stops at repetitions meets none.
                        value = f"{value} {number}"
                lines.append(f"{field.name}: {value}")
        return "\n".join(lines)

    return reply


def improvising(roles: Iterable[Role], seed: int = 1) -> ScriptedSpeaker:
    """Makes agents with improvised replies."""
    return ScriptedSpeaker(roles, improvised(seed))


def answered(answer: str, confidence: float) -> str:
    """Writes the reply of an agent that answers the question."""
    return f"Reasoning: it is so\nAnswer: {answer}\nConfidence: {confidence}"


def value_of(field: Field, turn: Turn, random: Random) -> str:
    """Draws a value of a field's type."""
    if field.values:
        return random.choice(field.values)
    question = turn.question
    words = [word.strip("?,.'\"()") for word in question.text.split() if len(word) > 3]
    words += [source.title for source in question.evidence if source.title]
    words = words or ["nothing"]
    few_words = random.sample(words, min(3, len(words)))
    match field.value:
        case Value.ANSWER:
            answers = list(question.choices) or words
            return random.choice([*answers, "unknown"])
        case Value.SHARE:
            return f"{random.random():.2f}"
        case Value.NUMBERS:
            listed = len(question.evidence)
            if turn.task:
                candidates = [line for line in turn.task.inputs if line.kind in (FieldKind.CANDIDATE, FieldKind.ANSWER)]
                listed = len(candidates) or listed
            numbers = range(random.randint(1, 3))
            # One past the end on purpose: methods must survive a reference to nothing.
            return ", ".join(str(random.randint(1, listed + 1)) for _ in numbers)
        case Value.TRIPLE:
            return f"{few_words[0]} | is near | {few_words[-1]}"
        case Value.CALL:
            return f"{random.choice([*field.tools, 'tables'])} | {' '.join(few_words)}"
        case _:
            return " ".join(few_words)

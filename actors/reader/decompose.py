"""Takes a question apart by its wording: several questions in one, alternatives, conditions, things only described."""

from __future__ import annotations

import re
from dataclasses import dataclass

from actors.reader.lexicon import LESS, MORE, STOP_WORDS
from actors.reader.question_form import question_form
from actors.reader.text import content_stems, name_spans

_AUXILIARY = "is|are|was|were|did|does|do|has|have|had|can|could|will|would"
_WH = "who|whose|whom|which|what|when|where|how|why"
# `..., and which ...`: a second question in the same sentence.
_ANOTHER = re.compile(
    r",?\s+and\s+(?:also\s+)?(?=(?:(?:in|on|at|for|from|by|to|with)\s+)?(?:whose|what|when|where|how|why)\b|"
    r"(?:in|on|at|for|from|by|to|with)\s+which\b|(?:who|which)\s+\w+)",
    re.IGNORECASE,
)
# After such a clause, `and which ...` may go on with the clause.
_RELATIVE = re.compile(r"\w\s+(?:that|which|who)\s", re.IGNORECASE)
_ASKS = re.compile(rf"\b(?:{_WH})\b|^(?:{_AUXILIARY}|name|list|give)\b", re.IGNORECASE)
_OPENS = re.compile(rf"(?:\w+,?\s+){{0,3}}(?:{_WH})\b|(?:{_AUXILIARY})\b", re.IGNORECASE)
# A question about a text that it quotes: later sentences belong to that text.
_QUOTES = re.compile(r"\b(?:this|the following) (?:text|sentence|passage)|\bbelow\b", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:it|its|he|his|she|her|they|their|him|them)\b", re.IGNORECASE)
_NAME = r"(?:[Tt]he\s+)?[A-Z][\w'’.\-]*(?:\s+(?:of\s+the\s+|of\s+)?[A-Z][\w'’.\-]*)*"
_NOUNS = r"[a-z][\w\-]*(?:\s+[a-z][\w\-]*)??"
_PLACE = rf"(?:\s+(?:of|by|(?:in|at|along|from)(?:\s+the\s+[a-z]+\s+of)?)\s+{_NAME})*"
# Participles that open a clause: `founded in`, `won by`.
_DONE = (
    r"(?:(?:first|originally|newly|later|also)\s+)?(?:[a-z]+ed|found|made|shot|built|born|written|held|known|won|sung|shown|drawn|set|kept|taught|led|run|worn)"
    r"\s+(?:by|in|at|near|on|for|to|with|from|as|since|under|during)\b"
)
_CLAUSE = (
    rf"(?:(?:(?:in|on|at|for|by|from)\s+)?which|that|who|whom|whose|where|with|featuring|showing|starring|{_DONE})\b"
)
_DESCRIBED = re.compile(
    rf"\b[Tt]he\s+(?P<noun>{_NOUNS})(?P<place>{_PLACE})\s+(?P<by>{_CLAUSE})(?P<rest>\s*.*)", re.DOTALL
)
_DATED = re.compile(rf"\b[Tt]he\s+(?P<year>\d{{4}})\s+(?P<noun>{_NOUNS})(?P<place>(?:\s+(?:of|in|by|from)\s+{_NAME})+)")
# With `does` before the description, the main verb comes after it and ends it.
_MAIN_VERB = re.compile(
    r"\s+(?:like|show|have|list|open|stand|come|happen|belong|play|win|live|keep|hold|use|appear|get|take|give|lie|"
    r"start|begin|end|work|serve|eat|need|want|wear|contain|feature|mean|say|look|go|run|represent|originate|read)\b[^,]*$"
)
# Nor are these part of the description: another clause, the question word, a participle after `was the ...`.
_NEXT = re.compile(rf",[\"”']?\s+(?:{_WH}|{_AUXILIARY})\b.*$|\s+(?:what|how)\b.*$", re.IGNORECASE | re.DOTALL)
_PARTICIPLE = re.compile(r"\s+(?:[a-z]+ed|held|made|shot|built|born|written|won|sung)$")
# `The fact that ...`: the clause says the fact and describes nothing.
_SAYING = frozenset("conclusion fact idea claim hypothesis belief statement way reason time".split())
# `Name the film that ...` asks for the thing itself.
_COMMAND = re.compile(r"^(?:name|select|identify|choose|list|give|find)\s+$", re.IGNORECASE)
# `Which film with X is also one that Y?`: two conditions on one thing.
_BOTH = re.compile(
    rf"^(?P<before>.*\bwhich\s+(?P<noun>{_NOUNS}))\s+(?P<one>(?:{_CLAUSE}|in|on|of|at|listed|also).*?)\s+is\s+(?:the|also)\s+one\s+"
    r"(?P<two>.+?)\??$",
    re.IGNORECASE,
)
_ALTERNATIVES = re.compile(r"^(?P<main>.*?)(?:[:,]|\bbetween\b)\s*(?P<options>[^:]+\s+or\s+.+?)\??$")
_FIRST = re.compile(
    r"\s*\b(?:(?:the )?(?:first|earlier|later|earliest|latest|last|more recently|most recently|older|younger|oldest|"
    r"newer|youngest))\b",
    re.IGNORECASE,
)
_MEASURED = re.compile(
    rf"\b(?:{'|'.join(sorted((MORE | LESS) - {'most', 'least'}))})\s+((?!in\b|of\b|than\b)[\w\-]+(?:\s+[\w\-]+)?)"
)


@dataclass(frozen=True, slots=True)
class Described:
    """Something that a question describes instead of naming, by which noun, where, and the question for its name."""

    start: int
    end: int
    noun: str
    question: str


def parts(text: str) -> tuple[str, ...]:
    """The smaller questions that a question takes to answer, in the order in which to ask them; itself if none.

    What is asked of a thing that is only described cannot be asked before the thing has a name: so the last part of
    such a question is the question itself, which at least stands alone.
    """
    questions: list[str] = []
    for question in _questions(text):
        compared = _compared(question)
        both = _BOTH.match(question)
        if compared:
            questions += compared
        elif both:
            questions += [_asked(f"{both['before']} {_holds(both[one])}") for one in ("one", "two")]
        else:
            # Innermost first: an outer description can be asked about once the inner thing has a name.
            questions += [thing.question for thing in reversed(described(question))]
            questions.append(question)
    split = tuple(dict.fromkeys(questions))
    return split if len(split) > 1 else (text,)


def described(question: str) -> list[Described]:
    """The things that a question describes, outermost first."""
    if _BOTH.match(question) or (_ALTERNATIVES.match(question) and question_form(question).options):
        return []
    things: list[Described] = []
    start = 0
    while match := _DESCRIBED.search(question, start):
        start = match.start("rest")
        # The search goes on within this description, which may hold another one.
        before, noun = question[: match.start()], match["noun"].split()[-1]
        if noun in STOP_WORDS | _SAYING or _COMMAND.match(before):
            continue
        # What follows the description belongs to the main clause again.
        rest = _NEXT.sub("", match["rest"].rstrip(" ?."))
        if re.search(r"\b(?:does|do|did)\b", before, re.IGNORECASE):
            rest = _MAIN_VERB.sub("", rest)
        elif re.search(r"\b(?:was|were|is|are)\s+$", before):
            rest = _PARTICIPLE.sub("", rest)
        if not content_stems(rest):
            continue
        end = match.start("rest") + len(rest)
        things.append(
            Described(match.start(), end, match["noun"], _which(match["noun"], match["place"], match["by"], rest))
        )
    for match in _DATED.finditer(question):
        asked = f"Which {match['noun']}{match['place']} is the one of {match['year']}?"
        things.append(Described(match.start(), match.end(), match["noun"], asked))
    return sorted(things, key=lambda thing: thing.start)


def named(question: str, thing: Described, name: str) -> str:
    """The question with a name in the place of the description."""
    return f"{question[: thing.start]}{name}{question[thing.end :]}"


def _questions(text: str) -> list[str]:
    """The sentences that ask, each with its `and which ...` on its own; the last sentence where none does."""
    sentences = [part.strip() for part in re.split(r"(?<=[?!])\s+|(?<=[a-z)]\.)\s+(?=[A-Z])", text) if part.strip()]
    asking = [part for part in sentences if part.endswith("?") and _OPENS.match(part)] or sentences[-1:]
    if asking and _QUOTES.search(asking[0]):
        asking = asking[:1]
    questions: list[str] = []
    for part in asking:
        pieces = [part] if question_form(part).options else _ANOTHER.split(part)
        if _RELATIVE.search(pieces[0]) or not all(
            _ASKS.search(piece) and len(content_stems(piece)) > 0 for piece in pieces
        ):
            pieces = [part]
        # Without the first letter, which is a capital in any sentence.
        names = [name for name, _, _ in name_spans(pieces[0][1:])]
        for number, piece in enumerate(pieces):
            # `... and when was it built?` is about what the first question names.
            if number and names:
                piece = _without_pronoun(piece, names[0])
            questions.append(_asked(piece))
    return questions


def _without_pronoun(question: str, name: str) -> str:
    """The question with a name instead of its first pronoun."""
    match = _PRONOUN.search(question)
    if not match:
        return question
    owner = f"{name}'s" if match[0].lower() in ("its", "his", "their") else name
    return f"{question[: match.start()]}{owner}{question[match.end() :]}"


def _which(noun: str, place: str, by: str, rest: str) -> str:
    """The question for the name of what is described."""
    thing = f"Which {noun}{place}"
    if by == "with":
        return f"{thing} has{rest}?"
    if by in ("that", "who", "which"):
        after = rest.split()
        subject = after[:1] and (after[0][0].isupper() or after[0].lower() in STOP_WORDS - set(_AUXILIARY.split("|")))
        return f"{thing} is it that{rest}?" if subject else f"{thing}{rest}?"
    if re.fullmatch(_DONE, by):
        return f"{thing} was {by}{rest}?"
    return f"{thing} is it {by}{rest}?"


def _holds(condition: str) -> str:
    """A condition on a noun as what is said of it: `with a star` becomes `has a star`."""
    first, _, rest = condition.partition(" ")
    if first == "with":
        return f"has {rest}"
    if first in ("that", "who", "which"):
        return rest
    if re.match(_DONE, condition):
        return f"was {condition}"
    return f"is the one {condition}" if first in ("whose", "where") else f"is {condition}"


def _compared(question: str) -> list[str]:
    """The questions for `which came first, X or Y`: for the names of X and Y if described, then for when each came."""
    form = question_form(question)
    match = _ALTERNATIVES.match(question)
    if not form.options or not match:
        return []
    questions: list[str] = []
    for option in form.options:
        questions += [thing.question for thing in reversed(described(option))]
    questions += [
        _when(match["main"].strip(), option, bool(form.order and form.order[0] == "time")) for option in form.options
    ]
    return questions


def _when(main: str, option: str, time: bool) -> str:
    """The question that decides between alternatives, put about one of them."""
    question = "When was it that" if time else "What number is it that"
    clause = _FIRST.sub("", main)
    verb = re.match(rf"(?:which|who|where|what)\s+(?P<aux>{_AUXILIARY})\s+(?P<rest>.+)$", clause, re.IGNORECASE)
    if verb and time and verb["aux"].lower() in ("did", "does", "do"):
        return f"When {verb['aux'].lower()} {verb['rest']} {option}?"
    plain = re.match(r"(?:which|who|what)\s+(?P<rest>[a-z]+ed\b.*|came\b.*|began\b.*|won\b.*)$", clause, re.IGNORECASE)
    if plain:
        return f"{question} {option} {plain['rest']}?"
    names = [name for name, _, _ in name_spans(main[1:])]
    about = f" ({', '.join(names)})" if names else ""
    measured = _MEASURED.search(main)
    what = "year" if time else measured[1] if measured else "number"
    return f"What is the {what} of {option[0].lower() if option.startswith('The ') else option[0]}{option[1:]}{about}?"


def _asked(text: str) -> str:
    text = text.strip(" ,") or "?"
    text = text if text.endswith(("?", ".")) else f"{text}?"
    return text[0].upper() + text[1:]

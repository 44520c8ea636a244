"""Does the task of a turn: fills each line of its form with the skill for its kind.

Without a result a line is left out.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from actors.messages import Field, FieldKind
from actors.reader import search_plan, task_state
from actors.reader.english import STOP_WORDS, name_spans, normal_name, sentences, stem, words
from actors.reader.grading import agree
from actors.reader.question import parts
from actors.reader.statements import CONCLUSION, NEXT, NOTHING, NOTHING_SEEN, Statement
from actors.reader.task_state import TaskState, one_of
from actors.reader.triple_rules import LISTED, MENTIONED, Edge, distinct, of_caption, of_passage, of_row

NEITHER = "neither"
SENTENCES = 4
MOST_TRIPLES = 24  # where a form sets no number: a whole graph, within the default limit of a reply
MOST_OF_SENTENCE = 3  # triples, as few as an agent would write
_PREPOSITION = re.compile(r"^(?:along|among|near|across|within|around|beside|according to)\s+", re.IGNORECASE)
_PREPOSITIONS = frozenset("along among near across within around beside upon per via against".split())
_HAS = re.compile(r"\b[Tt]he ([a-z][\w-]+(?: [a-z][\w-]+)?) of (?:the )?([A-Z][\w'’ -]*\w|[a-z][\w-]+)")


def answer(state: TaskState, line: Field) -> list[str]:
    """States the agent's answer, in the form's spelling."""
    if not state.answer and line.optional:
        return []
    text = state.answer or "unknown"
    return one_of(line, text.lower()) if line.values else [text]


def confidence(state: TaskState, line: Field) -> list[str]:
    """States the confidence in the answer, where the form asks for one. Else in the judgement of the evidence."""
    return [f"{state.confidence if state.field(FieldKind.ANSWER) else task_state.sureness(state):.2f}"]


def side(state: TaskState, line: Field) -> list[str]:
    """Names the side with this agent's answer, if the evidence suffices or all sides agree. Else neither."""
    last = dict(state.heard)  # a later answer replaces an earlier one
    agreeing = [agent for agent, text in last.items() if state.answer and agree(text, state.answer)]
    decided = bool(agreeing) and (len(agreeing) == len(last) or task_state.suffices(state))
    return one_of(line, agreeing[0].lower() if decided else NEITHER)


def candidate(state: TaskState, line: Field) -> list[str]:
    """Lists the different answers of others. Unknown where there is none."""
    different: list[str] = []
    for _, text in state.heard:
        if text and not any(agree(text, other) for other in different):
            different.append(text)
    return different or ([] if line.optional else ["unknown"])


def summary(state: TaskState, line: Field) -> list[str]:
    """Writes the relevant statements as sentences."""
    if line.optional and task_state.dismissed(state):
        return []
    bearing = state.most_bearing(line.most or SENTENCES)
    return [_in_sentences(bearing)] if bearing else [] if line.optional else [NOTHING]


def description(state: TaskState, line: Field) -> list[str]:
    """Writes the relevant statements about pictures. All of them where there is only one picture."""
    if line.optional and task_state.dismissed(state):
        return []
    bearing = state.most_bearing(SENTENCES, seen=True)
    if state.pictures == 1:
        seen = (statement for statement in state.evidence.statements if statement.seen)
        bearing = list(dict.fromkeys([*bearing, *seen]))[: 2 * SENTENCES]
    return [_in_sentences(bearing)] if bearing else [] if line.optional else [NOTHING_SEEN]


def thought(state: TaskState, line: Field) -> list[str]:
    """States the best evidence and its consequence: an answer, or the next question."""
    known = _in_sentences(state.most_bearing(2)) or NOTHING
    if state.answer:
        return [f"{known} {CONCLUSION}{state.answer.rstrip('.')}."]
    return [f"{known} {NEXT}{search_plan.next_question(state)}"]


def triples_of(statement: Statement) -> list[Edge]:
    """Returns the (head, relation, tail) of one statement. [] where no rule fits its wording."""
    if statement.triple:
        return [statement.triple]
    if statement.cells:
        edges = distinct(of_row(statement.title, "; ".join(f"{header}: {value}" for header, value in statement.cells)))
        # The row's place in its table comes last: its cells state more.
        return sorted(edges, key=lambda edge: edge[1].startswith(LISTED))
    if statement.seen:
        return distinct(of_caption(statement.title, statement.text))
    edges = distinct(of_passage(statement.title, statement.text, statement.title))
    return [edge for edge in edges if edge[1] != MENTIONED][:MOST_OF_SENTENCE]


def triple(state: TaskState, line: Field) -> list[str]:
    """Lists the relevant triples, best first, without those already found; else those of the question.

    All triples, where the form sets no number or nothing is asked.
    """
    found = {given.text for given in state.lines_of(FieldKind.FOUND)}
    everything = line.most is None or not state.evidence.asked.weights
    values: dict[Edge, float] = {}
    for entry, (strength, chain) in zip(state.evidence.entries, state.evidence.chains, strict=True):
        # A link of a good chain counts a little less than direct coverage.
        value = max(state.evidence.bearing(entry), 0.9 * strength * (len(chain) > 1))
        for edge in triples_of(entry.statement):
            values[edge] = max(values.get(edge, 0.0), value)
    ranked = sorted(values, key=lambda edge: -values[edge])
    ranked = [edge for edge in ranked if " | ".join(edge) not in found]
    kept = [edge for edge in ranked if everything or values[edge] > 0]
    if found and not kept:
        return ["none"]
    if not kept:
        # What the question presumes: the triples of its statements, and `river | has | source`.
        for sentence in sentences(state.question):
            if not sentence.endswith("?"):
                kept += distinct(of_passage("", sentence, ""))
            kept += [(match[2], "has", match[1]) for match in _HAS.finditer(sentence)]
    return [" | ".join(edge) for edge in kept[: MOST_TRIPLES if everything else line.most]]


def entity(state: TaskState, line: Field) -> list[str]:
    """Names or else noun groups of the question. Without a question, the names of the evidence."""
    if not state.question:
        names = list({key: name for statement in state.most_bearing(8) for key, name in statement.names}.values())
    else:
        names = names_in(state.question) or noun_groups(state.question)
    return _distinct(names)[: line.most or 8]


def keyword(state: TaskState, line: Field) -> list[str]:
    """Names and noun groups of the question. Without a question, of the evidence."""
    text = state.question
    if not text:
        text = " ".join(f"{statement.title}. {statement.text}" for statement in state.most_bearing(3))
    groups = (phrase for phrase in noun_groups(text) if phrase[0].islower())
    return _distinct([*names_in(text), *groups])[: line.most or 8]


def theme(state: TaskState, line: Field) -> list[str]:
    """Relations in the question: its noun groups without names, the one asked for first."""
    form = state.evidence.asked.form
    groups = [phrase for phrase in noun_groups(state.question) if phrase[:1].islower()]
    head = [phrase for phrase in groups if stem(words(phrase)[-1]) in form.head]
    return _distinct([*head, *groups] or [str(form.answer_type)])[: line.most or 4]


def names_in(text: str) -> list[str]:
    """Finds names in a text, without prepositions and verbs that open its sentences with a capital."""
    names = []
    for name, start, end in name_spans(text):
        bare = _PREPOSITION.sub("", name)
        opens = start == 0 or text[:start].rstrip().endswith((".", "?", "!"))
        # At the start of a sentence a name needs another sign than its capital.
        if bare != name or not opens or " " in name or text.count(name) > 1 or text[end:].startswith("'s"):
            names.append(re.sub(r"^[Tt]he ", "", bare))
    return names


def noun_groups(text: str) -> list[str]:
    """Finds sequences of content words, apart from names, in order."""
    groups: list[str] = []
    run: list[str] = []
    end = 0
    for match in re.finditer(r"[^\W_]+(?:['’\-][^\W_]+)*", text):
        word = match[0]
        # A change between capitals and small letters ends a group: names stay separate.
        joined = text[end : match.start()].isspace() and run and run[-1][0].isupper() == word[0].isupper()
        end = match.end()
        if word.lower().removesuffix("'s") in STOP_WORDS | _PREPOSITIONS:
            groups, run = [*groups, " ".join(run)], []
        elif joined and len(run) < 3:
            run.append(word)
        else:
            groups, run = [*groups, " ".join(run)], [word]
    return [phrase for phrase in (*groups, " ".join(run)) if phrase and not phrase.isdigit()]


def _distinct(names: Iterable[str]) -> list[str]:
    kept: dict[str, str] = {}
    for text in names:
        if key := normal_name(text):
            kept.setdefault(key, text)
    return list(kept.values())


def _in_sentences(bearing: Sequence[Statement]) -> str:
    """Writes statements as text, each once, after its title where it does not contain it."""
    texts = []
    for statement in bearing:
        text = statement.text
        if statement.title and (statement.cells or statement.title.lower() not in text.lower()):
            text = f"{statement.title}: {text}" if text else f"{statement.title} is shown"
        texts.append(f"{text}{'' if statement.text.endswith(('.', '!', '?')) else '.'}")
    return " ".join(dict.fromkeys(texts))


Skill = Callable[[TaskState, Field], list[str]]

SKILLS: Mapping[FieldKind, Skill] = {
    FieldKind.ACTION: search_plan.action,
    FieldKind.ANSWER: answer,
    FieldKind.CANDIDATE: candidate,
    FieldKind.CONFIDENCE: confidence,
    FieldKind.DESCRIPTION: description,
    FieldKind.ENOUGH: lambda state, line: task_state.yes_or_no(line, task_state.suffices(state)),
    FieldKind.ENTITY: entity,
    FieldKind.INSTRUCTION: lambda state, line: [search_plan.node(state)[2]],
    FieldKind.INTENTS: lambda state, line: one_of(line, str(min(3, len(parts(state.question))))),
    FieldKind.KEYWORD: keyword,
    FieldKind.PARENTS: lambda state, line: (
        [", ".join(map(str, parents))] if (parents := search_plan.node(state)[1]) else []
    ),
    FieldKind.QUERY: search_plan.query,
    FieldKind.RELEVANT: task_state.relevant,
    FieldKind.RETRIEVE: lambda state, line: task_state.yes_or_no(line, not task_state.suffices(state)),
    FieldKind.SELECTED: task_state.selected,
    FieldKind.SIDE: side,
    FieldKind.STEP: search_plan.step,
    FieldKind.SUB_QUESTION: search_plan.sub_question,
    FieldKind.SUMMARY: summary,
    FieldKind.SUPPORTED: task_state.supported,
    FieldKind.THEME: theme,
    FieldKind.THOUGHT: thought,
    FieldKind.TRIPLE: triple,
    FieldKind.TYPE: lambda state, line: one_of(line, search_plan.node(state)[0].lower()),
    FieldKind.VISUAL: task_state.visual,
}


def fill(state: TaskState) -> str:
    """Returns the reply: a line per value, fields in the form's order."""
    lines: list[str] = []
    for line in state.task.fields:
        # The reader cannot fill further fields of a role's form (faults, coordinates).
        unknown = line.label and line.optional and line.kind is FieldKind.SUMMARY
        skill = None if unknown else SKILLS.get(line.kind)
        values = skill(state, line) if skill else []
        # One line a value: text after a line break might be parsed as another field.
        lines += [f"{line.name}: {' '.join(value.split())}" for value in (values if line.many else values[:1])]
    return "\n".join(lines)

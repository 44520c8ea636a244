"""Every form of a reply that the project asks for, by name: what the corpus of replies is read with."""

from actors.messages import Field, FieldKind, Value

YES_NO = ("yes", "no")


def _field(
    kind: FieldKind, *values: str, many: bool = False, optional: bool = False, value: Value = Value.TEXT
) -> Field:
    tools = ("texts", "pictures", "web") if value is Value.CALL else ()
    return Field(kind, "", values, many, optional, tools=tools, value=value)


THOUGHT = _field(FieldKind.THOUGHT)
TRIPLES = _field(FieldKind.TRIPLE, many=True, value=Value.TRIPLE)
MAYBE_TRIPLES = _field(FieldKind.TRIPLE, many=True, optional=True, value=Value.TRIPLE)
RELEVANT = _field(FieldKind.RELEVANT, *YES_NO)
MAYBE_SURE = _field(FieldKind.CONFIDENCE, optional=True, value=Value.SHARE)
MAYBE_QUERY = _field(FieldKind.QUERY, optional=True)
MAYBE_ANSWER = _field(FieldKind.ANSWER, optional=True, value=Value.ANSWER)
NUMBERS = _field(FieldKind.SELECTED, value=Value.NUMBERS)
MAYBE_NUMBERS = _field(FieldKind.SELECTED, optional=True, value=Value.NUMBERS)
SUMMARY = _field(FieldKind.SUMMARY)
ANSWER = _field(FieldKind.ANSWER, value=Value.ANSWER)
MAYBE_THOUGHT = _field(FieldKind.THOUGHT, optional=True)
MAYBE_ANSWER = _field(FieldKind.ANSWER, optional=True, value=Value.ANSWER)

FORMS: dict[str, tuple[Field, ...]] = {
    "answer": (
        _field(FieldKind.REASONING, optional=True),
        ANSWER,
        _field(FieldKind.CONFIDENCE, optional=True, value=Value.SHARE),
    ),
    "answer_alone": (ANSWER,),
    "steps": (THOUGHT, ANSWER),
    "thought": (THOUGHT,),
    "draw": (THOUGHT, MAYBE_TRIPLES),
    "revise": (MAYBE_TRIPLES, ANSWER),
    "scene_graph": (TRIPLES,),
    "choose": (RELEVANT, MAYBE_NUMBERS),
    "critique": (MAYBE_THOUGHT, _field(FieldKind.SUPPORTED, *YES_NO)),
    "prefer": (MAYBE_THOUGHT, _field(FieldKind.SIDE, "affirmative", "negative", "neither"), MAYBE_ANSWER),
    "candidates": (_field(FieldKind.CANDIDATE, many=True),),
    "same": (_field(FieldKind.SAME, *YES_NO),),
    "intents": (_field(FieldKind.INTENTS, "1", "2", "3"),),
    "sub_questions": (_field(FieldKind.SUB_QUESTION, many=True),),
    "parts": (_field(FieldKind.SUB_QUESTION, many=True, value=Value.PAIR),),
    "keywords": (_field(FieldKind.KEYWORD, many=True), _field(FieldKind.THEME, many=True, optional=True)),
    "grade": (_field(FieldKind.REASONING, optional=True), _field(FieldKind.GRADE, *"12345")),
    "summary": (SUMMARY,),
    "node": (
        _field(FieldKind.TYPE, "Question", "Retrieval", "Answer", "Stop"),
        _field(FieldKind.PARENTS, optional=True, value=Value.NUMBERS),
        _field(FieldKind.INSTRUCTION, optional=True),
    ),
    "thought_node": (
        THOUGHT,
        _field(FieldKind.TYPE, "Question", "Retrieval", "Answer", "Stop"),
        _field(FieldKind.PARENTS, optional=True, value=Value.NUMBERS),
        _field(FieldKind.INSTRUCTION, optional=True),
    ),
    "decompose": (
        _field(FieldKind.KEYWORD, many=True),
        _field(FieldKind.VISUAL, *YES_NO),
        _field(FieldKind.ENTITY, many=True, optional=True),
        _field(FieldKind.QUERY, optional=True),
        _field(FieldKind.SUB_QUESTION, optional=True),
    ),
    "examine": (RELEVANT, _field(FieldKind.SUMMARY, optional=True)),
    "examine_picture": (RELEVANT, _field(FieldKind.DESCRIPTION, optional=True)),
    "keep_triples": (MAYBE_TRIPLES,),
    "examine_triples": (RELEVANT, MAYBE_TRIPLES),
    "verdict": (_field(FieldKind.ENOUGH, *YES_NO),),
    "verdict_pictures": (_field(FieldKind.ENOUGH, *YES_NO), _field(FieldKind.DESCRIPTION)),
    "reason": (THOUGHT, _field(FieldKind.ENOUGH, *YES_NO), _field(FieldKind.QUERY, optional=True)),
    "visual": (_field(FieldKind.VISUAL, *YES_NO),),
    "retrieve": (_field(FieldKind.RETRIEVE, *YES_NO),),
    "judge_passage": (RELEVANT, MAYBE_SURE),
    "search": (
        THOUGHT,
        _field(FieldKind.ACTION, "texts", "pictures", "web", "finish"),
        _field(FieldKind.SUB_QUESTION, optional=True),
        MAYBE_QUERY,
        MAYBE_ANSWER,
    ),
    "search_similar": (
        THOUGHT,
        _field(FieldKind.ACTION, "texts", "pictures", "similar", "web", "finish"),
        _field(FieldKind.SUB_QUESTION, optional=True),
        MAYBE_QUERY,
        MAYBE_ANSWER,
    ),
    "describe": (_field(FieldKind.DESCRIPTION),),
    "entities": (_field(FieldKind.ENTITY, many=True),),
    "pick": (NUMBERS,),
    "expand": (MAYBE_NUMBERS,),
    "calls": (_field(FieldKind.STEP, many=True, optional=True, value=Value.CALL),),
    "seek": (THOUGHT, MAYBE_NUMBERS),
    "inspect": (THOUGHT, _field(FieldKind.ENOUGH, *YES_NO), MAYBE_QUERY, MAYBE_NUMBERS, MAYBE_ANSWER),
}

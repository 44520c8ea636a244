"""Defines ten roles (section 8, Figs. 6-14), a decision agent, and one that works alone, in the project's words."""

from actors.messages import Modality, Role

_TEXTUAL = {
    "critic": "Look for the weak points: a claim without evidence, a name or date mixed up, a step left out. "
    "Name each fault you find in what was said, then give the answer that survives your objections.",
    "data_analyst": "Work through the passages and the table rows one after another, keep the values that bear on "
    "the question, compare or count them where asked, and read the answer off them.",
    "knowledge_expert": "Name the people, works and places that the question turns on, say what the evidence states "
    "about each, and answer from how these statements fit together.",
    "scientist": "Form a hypothesis from the evidence, test it against every passage and row that could refute it, "
    "and answer with what holds.",
    "logic_expert": "Break the question into the smallest steps, answer each from the evidence, and check that every "
    "step follows from the one before.",
}

_VISUAL = {
    "critic": "Check what was claimed about the pictures against what they show: objects, colours, numbers, "
    "text. Name each mistake, then give the answer that the pictures bear out.",
    "data_analyst": "Describe what in the pictures bears on the question: count, compare, read text, charts and "
    "labels, and read the answer off what you see.",
    "knowledge_expert": "Recognise who or what the pictures show, say in which part of which picture, and link it to "
    "what the question asks about.",
    "scientist": "Treat each picture as an observation: state what it shows, what follows from that, and which "
    "answer the observations support.",
    "logic_expert": "Turn what the pictures show into premises, one per picture, and derive the answer from them step "
    "by step; say where a premise is missing.",
}


TEXTUAL, VISUAL = (
    tuple(
        Role(f"{modality}_{name}", modality, f"You are the {modality} {name.replace('_', ' ')} of the team. {task}")
        for name, task in tasks.items()
    )
    for modality, tasks in ((Modality.TEXT, _TEXTUAL), (Modality.VISUAL, _VISUAL))
)
DECISION = Role(
    "decision",
    Modality.BOTH,
    "You make the final decision. Weigh what the specialists concluded against the evidence and against each other, "
    "and give the one answer that is best supported.",
)
SINGLE = Role(
    "single", Modality.BOTH, "You are a scientist. Work out what is asked, find what bears on it, and answer."
)
ROLES = {role.name: role for role in (*TEXTUAL, *VISUAL, DECISION, SINGLE)}

DUMMY_SENTENCE = "I have nothing to contribute to this question."

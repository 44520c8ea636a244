"""English as the embedded reader knows it: word lists, stems, names, sentences and tokens."""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise

STOP_WORDS = frozenset(
    """a an the of in on at to for from by with without and or nor but as is are was were be been being am do does did
    done has have had having it its it's this that these those there here he she they them his her hers their theirs we
    you your i who whom whose which what when where why how many much than then so such not no into onto over under
    about after before during between through while also both each any all some other another same own will would can
    could may might shall should must if because up down out off only very just s t 's one's ones""".split()
)

COLOURS = frozenset(
    """red orange yellow green blue purple violet pink brown black white grey gray gold golden silver beige turquoise
    maroon navy cyan magenta teal crimson scarlet olive tan cream lilac""".split()
)

NUMBERS = {
    word: value
    for value, word in enumerate(
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""".split()
    )
}

MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"

PEOPLE = frozenset(
    """actor actress player director singer writer author artist person man woman composer driver musician painter coach
    manager captain politician rider athlete producer founder poet scientist engineer architect mayor president king
    queen photographer dancer footballer goalkeeper striker name born member star partner opponent winner
    novelist host presenter inventor chef teacher sculptor journalist""".split()
)

PLACES = frozenset(
    """city town village country state county region island place venue location stadium province capital river
    district municipality nation continent home hometown birthplace harbour port valley""".split()
)

# Everyday kinds that a question may ask for, with members that descriptions name.
KINDS = {
    "animal": """dog cat horse lion tiger bear wolf fox rabbit deer elephant cow bull pig sheep goat monkey mouse rat
    bird eagle owl duck swan hawk falcon parrot penguin fish shark whale dolphin snake turtle frog butterfly bee
    spider dragon giraffe zebra camel kangaroo panda donkey mule crab octopus rooster chicken hen hare stag""",
    "bird": "eagle owl duck swan hawk falcon parrot penguin rooster raven crow heron dove gull goose",
    "fruit": "apple pear banana orange cherry grape lemon strawberry peach plum pineapple melon",
    "vehicle": "car bus truck train tram bicycle bike motorcycle boat ship plane helicopter balloon rocket tractor",
    "instrument": "guitar piano violin drum trumpet flute cello harp saxophone accordion banjo",
    "shape": "circle square triangle star heart diamond cross shield ring oval rectangle hexagon crescent arrow",
    "plant": "tree flower rose tulip leaf cactus palm sunflower lily oak pine",
    "building": "house church tower castle bridge lighthouse windmill temple palace arch skyscraper",
    "sport": "football soccer baseball basketball hockey tennis golf rugby cricket boxing swimming racing volleyball",
    "hat": "cap helmet crown beret turban hood",
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Words that ask for the smallest or the largest of some times or numbers."""

    words: frozenset[str]
    of_time: bool
    smallest_wins: bool


_EARLIEST = "first earlier earliest before older oldest initially"
_LATEST = "later latest recent recently newer newest last younger youngest"
_LARGEST = "more most higher highest larger largest bigger biggest greater greatest taller tallest longer longest"
_SMALLEST = "less least lower lowest smaller smallest fewer fewest shorter shortest"
COMPARISONS = (
    Comparison(frozenset(_EARLIEST.split()), of_time=True, smallest_wins=True),
    Comparison(frozenset(_LATEST.split()), of_time=True, smallest_wins=False),
    Comparison(frozenset(_LARGEST.split()), of_time=False, smallest_wins=False),
    Comparison(frozenset(_SMALLEST.split()), of_time=False, smallest_wins=True),
)

# Words in questions about something visible.
PICTURE_WORDS = COLOURS | frozenset(
    """picture image photo photograph poster cover logo banner signboard sign facade painting drawing illustration
    figure diagram map chart graph flag emblem badge screenshot colour color colored coloured shape wearing wear
    depicted depict pictured shown visible look background foreground lettering""".split()
)

_WORD = re.compile(r"[^\W_]+(?:[.'’\-][^\W_]+)*")
_IN_BRACKETS = re.compile(r"\s*\([^)]*\)")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”']?\s+(?=[\"“(\[]?[A-Z0-9])")
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|No|vs)|\b[A-Z])\.$")
_CAPITAL = r"[A-Z0-9À-ÖØ-Þ][\w'’.&\-]*\w|[A-Z]\b"
_NAME = re.compile(rf"(?:{_CAPITAL})(?:\s+(?:(?:of|the|de|von|van|la|du)\s+){{0,2}}(?:{_CAPITAL}))*")
_IRREGULAR = dict(
    pair.split(":")
    for pair in """
        won:win wrote:write written:write sang:sing sung:sing birth:born color:colour colors:colour
        built:build held:hold began:begin made:make men:man women:woman children:child people:person
        took:take led:lead gray:grey shown:show worn:wear wore:wear taught:teach ran:run feet:foot
        mice:mouse lettering:letter grew:grow
    """.split()
)
YEAR = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b")
# In this order, since only the first match is removed: `ations` before `ions` before `s`.
_SUFFIXES = "ations ation ings ing ions ion ers ors er or ies ied ed es s y e".split()


def words(text: str) -> list[str]:
    """Splits a text into words and numbers, lower case, without possessive endings."""
    return [word.replace("’", "'").removesuffix("'s") for word in _WORD.findall(text.lower())]


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Stems a lower-case word lightly: `directed`, `director` and `directs` become `direct`."""
    word = _IRREGULAR.get(word, word)
    if word.isdigit() or len(word) < 4:
        return word
    for suffix in _SUFFIXES:
        # `glass` is no plural.
        if suffix == "s" and word.endswith("ss"):
            continue
        # Three letters have to remain, or short words would become equal.
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            break
    # `running` and `runs` become `run`.
    if len(word) > 3 and word[-1] == word[-2]:
        return word[:-1]
    return word.rstrip("e") if len(word) > 4 else word


def stems(text: str) -> list[str]:
    """Returns the stems of all words, in order, with repetitions."""
    return list(map(stem, words(text)))


def content_stems(text: str) -> list[str]:
    """Returns the stems of content words, in order, with repetitions."""
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


def features(text: str) -> list[str]:
    """Returns content stems and pairs of neighbours. Pairs tell "red ball, blue hat" from "blue ball, red hat"."""
    single_stems = content_stems(text)
    pairs = [f"{first} {second}" for first, second in pairwise(single_stems) if first != second]
    return single_stems + pairs


@lru_cache(maxsize=1 << 14)
def normal_name(name: str) -> str:
    """Normalises a name: lower case, no article, no addition in brackets."""
    # A name entirely in brackets stays.
    name_words = words(_IN_BRACKETS.sub("", name) or name)
    if len(name_words) > 1 and name_words[0] in ("the", "a", "an"):
        del name_words[0]
    return " ".join(name_words)


def name_spans(text: str) -> list[tuple[str, int, int]]:
    """Finds capitalised names in a sentence as (name, start, end), without an opening function word."""
    spans = []
    for match in _NAME.finditer(text):
        start = match.start()
        name = match[0]
        first_word, _, rest = name.partition(" ")
        if first_word.lower() in STOP_WORDS:  # an opening "The" or "In" is no part of the name
            if not rest[:1].isupper():
                continue
            start += len(first_word) + 1
            name = rest
        # Numbers are no names, in digits or in words, nor is `None of them`.
        if not name.isdigit() and name.lower() not in NUMBERS and name not in ("None", "Nothing"):
            spans.append((name, start, match.end()))
    return spans


def sentences(text: str) -> list[str]:
    """Splits a passage into sentences. Initials and titles such as `Dr.` do not end one."""
    parts: list[str] = []
    for part in _SENTENCE_END.split(text):
        if parts and _ABBREVIATION.search(parts[-1]):
            parts[-1] = f"{parts[-1]} {part}"
        elif part.strip():
            parts.append(part.strip())
    return parts


def count_tokens(text: str) -> int:
    """Counts words and punctuation marks, in place of a tokeniser."""
    # By line: messages and passages recur in many prompts.
    return sum(map(_count_line, text.split("\n")))


@lru_cache(maxsize=1 << 14)
def _count_line(line: str) -> int:
    return len(_TOKEN.findall(line))


def cut_to_tokens(text: str, limit: int) -> str:
    """Returns the longest beginning of `text` with at most `limit` tokens."""
    beyond = next(islice(_TOKEN.finditer(text), limit, None), None)
    return text[: beyond.start()].rstrip() if beyond else text

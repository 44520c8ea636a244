"""WebQA's QA-Acc: the overlap of an answer with keywords. It depends on the category of the question.

The rules are those of WebQnA/WebQA_Baseline, vlp/eval_1022.py: text is normalised, both answers become bags of words
(for a colour, shape or yes-no question only the words of that domain, for a number question only whole numbers), and
the accuracy is F1 for these four categories and recall of the gold bag for the others. Where a gold answer has no
keywords, which are released with no split that has answers, the whole answer takes their place, as in eval_webqa.md of
WebQnA/WebQA. F1 is not lowered by the script's 1e-5 in the denominator.

The script also lemmatises with spaCy's en_core_web_sm. Without it (it is no Python package of the index) words are
compared as they are: see `lemmatiser`. QA-FL, the fluency by BARTScore, needs its authors' weights and is not computed.
"""

import importlib
import importlib.util
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from topologies.answers import NUMBER_WORDS

Lemmatise = Callable[[str], str]

# Both lists are the script's own, with its odd entries, because its scores depend on them.
COLOURS = frozenset(
    """orangebrown spot yellow blue rainbow ivory brown gray teal bluewhite orangepurple black white gold redorange
    pink blonde tan turquoise grey beige golden orange bronze maroon purple bluere red rust violet transparent yes
    silver chrome green aqua""".split()
)
SHAPES = frozenset(
    """globular octogon ring hoop octagon concave flat wavy shamrock cross cylinder cylindrical pentagon point pyramidal
    crescent rectangular hook tube cone bell spiral ball convex square arch h cuboid step rectangle dot oval circle star
    crosse crest octagonal cube triangle semicircle domeshape obelisk corkscrew curve circular xs slope pyramid round
    bow straight triangular heart fork teardrop fold curl spherical diamond keyhole conical dome sphere bellshaped
    rounded hexagon flower globe torus""".split()
)
DOMAINS: dict[str, Collection[str]] = {"color": COLOURS, "shape": SHAPES, "YesNo": frozenset({"yes", "no"})}
# The script's own names; for these a longer answer than the keywords is not an error.
BY_RECALL = ("text", "choose", "Others")
CATEGORIES = (*DOMAINS, "number", *BY_RECALL)

_ARTICLE = re.compile(r"\b(a|an|the)\b")
# The point is kept here, and removed below unless digits follow.
_PUNCTUATION = str.maketrans("", "", string.punctuation.replace(".", ""))
_NO_DECIMAL_POINT = re.compile(r"\.(?!\d)")


def overlap(answer: str, keywords: str, category: str, lemmatise: Lemmatise | None = None) -> tuple[float, float]:
    """QA-Acc and F1 of an answer, in [0, 1]. Raises ValueError for a category that is none of `CATEGORIES`."""
    if category not in CATEGORIES:
        raise ValueError(f"unknown question category {category!r}: one of {', '.join(CATEGORIES)}")

    bag = _bag(normalised(answer, lemmatise).split(), category)
    gold_bag = _bag(normalised(keywords, lemmatise).split(), category)
    # Counters: a word counts as often as both have it.
    common = (bag & gold_bag).total()
    if not common:
        return 0.0, 0.0

    precision = common / bag.total()
    recall = common / gold_bag.total()
    f1 = 2 * precision * recall / (precision + recall)
    accuracy = recall if category in BY_RECALL else f1
    return accuracy, f1


def _bag(words: Sequence[str], category: str) -> Counter[str]:
    """Counts the words that count in a category."""
    if category == "number":
        numbers = map(_whole, words)
        return Counter(str(number) for number in numbers if number is not None)
    if category in DOMAINS:
        # A set, as in the script: "red, red and blue" names two colours.
        return Counter(set(words) & set(DOMAINS[category]))
    return Counter(words)


def normalised(text: str, lemmatise: Lemmatise | None = None) -> str:
    """Text in lower case without punctuation and articles, with number words as digits.

    Decimal points stay, and so does an article that is the whole answer. One character stays as it is.
    """
    words = text.lower().split()
    # "?" or "a" as an answer would otherwise become empty and match nothing.
    if len(text.strip()) == 1:
        return " ".join(map(_with_digits, words))

    plain_text = _NO_DECIMAL_POINT.sub("", text.lower().translate(_PUNCTUATION))
    if len(words) != 1:
        plain_text = _ARTICLE.sub(" ", plain_text)
    digits = " ".join(map(_with_digits, plain_text.split()))
    return lemmatise(digits) if lemmatise else digits


def _with_digits(word: str) -> str:
    # Through `int`, so that 007 and 7 are the same number.
    number = _whole(word) if word.isdigit() else NUMBER_WORDS.get(word)
    return word if number is None else str(number)


def lemmatiser() -> Lemmatise | None:
    """Loads the script's lemmatiser, or gives None where spaCy and its model are not installed.

    To install the model: `python -m spacy download en_core_web_sm`.
    """
    # Looked up before importing: spaCy is optional and slow to import.
    if not (importlib.util.find_spec("spacy") and importlib.util.find_spec("en_core_web_sm")):
        return None
    model = importlib.import_module("spacy").load("en_core_web_sm", disable=["ner", "textcat", "parser"])
    return lambda text: " ".join(token.lemma_ for token in model(text))


def _whole(word: str) -> int | None:
    # `isdigit` alone will not do: it holds for "²", which is no number to `int`.
    try:
        return int(word)
    except ValueError:
        return None

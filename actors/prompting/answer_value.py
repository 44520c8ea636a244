"""Reads an answer, a text or one of the choices, whatever a model wraps it in. Ambiguous ones state nothing.

A statement that there is no answer (not known, not in the evidence, or refused) has a negation, and a word of knowing
or of the evidence. The words are those of some twenty languages; a title (`No Information Society`) has other words,
each with a capital, and is an answer.

Linear in the text's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

import html
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from actors.messages import Field
from actors.prompting.form import FieldFault, Values, letters, quoted
from actors.prompting.reply_text import (
    BULLET,
    NOTHING,
    OFFER,
    OTHER_LABEL,
    PLACEHOLDER,
    POWERS,
    ends_a_value,
    uncited,
    undecorated,
    unwrapped,
)
from actors.prompting.safe_text import one_line

_FEW_WORDS = 8
# Brackets of the form that a model left around its value, and no tag.
_IN_ANGLES = re.compile(r"<(?:\d+|[A-Z](?:[^\W\d_]*[a-z])?|yes|no)>")
# `No. Ten` may be a number.
_SENTENCE = re.compile(
    r"(?P<first>.{0,60}?\b(?:[^\W\d_]{4,}|\d{4}|\A(?:[Yy]es|[Nn]o))[\"'”*]{0,3})\.\s"
    r"(?!(?:One|Two|Three|Four|Five|Six|Seven|Eight|Nine|Ten)\b)(?=[A-Z][^.]*\s[a-z])"
)
_YES_OR_NO = re.compile(r"(?:yes|no)\s?[,.;:!?–—-]+\s*(?P<rest>\w.*)", re.IGNORECASE)
_REMARK = re.compile(r"\s[–—-]\s(?P<rest>(?:[a-z]\S*|I)\s.*)|;\s(?P<clause>[a-z]\S*(?:\s\S+){2,})$")
_SIGNED = re.compile(r"(?P<sign>[-−–+])\s?(?=\.?\d)|(?=\.\d)")  # at the beginning of a number
_LEAD_IN = re.compile(
    r"\A(?:(?:the )?(?:(?:correct|right|best|final) )?(?:answer|option|choice)(?: is)?:?|letter|it is|it's|this is|"
    r"that is)\s+"
)
_BETWEEN = r"[\s.,:;()\[\]*_`\"'–—-]{0,8}?"  # a choice's letter and its text


def read_answer(field: Field, value: str, choices: Sequence[str]) -> Values | FieldFault | None:
    """Reads the value of an answer's field. () where it is not known or left out, None where it is empty."""
    plain = unwrapped(value)
    placeholder = PLACEHOLDER.fullmatch(value) and not is_unknown(value)
    if placeholder or plain.lower() == field.name.lower() or not _has_content(value):
        return None
    # The form of an answer that may be left out offers `none`; `no` may be meant as an answer.
    left_out = field.optional and NOTHING.fullmatch(plain.strip(" .")) and plain.strip(" .").casefold() != "no"
    if left_out and not choices:
        return ()
    if field.optional and plain == "false" and not choices:
        return FieldFault(field, "`false` may be `no` or none at all")
    stated, _ = stated_answer(value, choices)
    if stated == "":
        if left_out:
            return ()
        return FieldFault(field, f"{quoted(value)} is not one of the choices {', '.join(letters(choices))}")
    if stated is None:
        return ()
    if choices:
        return (stated,)
    # `Answer: Answer: - red` has its bullet after the second label.
    stated = stated if stated[:1].isdigit() or _SIGNED.match(stated) else BULLET.sub("", stated, count=1)
    # A few words, or yes or no, before a sentence.
    first, rest = stated, ""
    few, clause = _SENTENCE.match(stated), _YES_OR_NO.fullmatch(stated)
    if few and len(few["first"].split()) <= _FEW_WORDS:
        first, rest = few["first"], stated[few.end() :]
    # `No, No, Nanette` is a name.
    elif clause and (re.search(r"\b[a-z]{4}|\bis\b", clause["rest"]) or _YES_OR_NO.match(f"{clause['rest']}. x")):
        first, rest = stated[: clause.start("rest")], clause["rest"]
    elif remark := _REMARK.search(stated):
        first, rest = stated[: remark.start()], remark["rest"] or remark["clause"]
    if rest and not OFFER.match(rest):
        return FieldFault(field, f"{quoted(stated)} has more than the answer")
    stated = undecorated(first)[0] if rest else stated
    return None if stated.lower() == field.name.lower() or not _has_content(stated) else (stated,)


def _has_content(value: str) -> bool:
    """False for a row of marks. A sign or two may be an answer."""
    return any(map(str.isalnum, value)) or 0 < len(value.strip(" ?.…*_`\"'")) < 3


def answer_text(lines: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Returns an answer on one line, without cited sources, and the lines that follow it.

    It is the first line with content, or the lines of a list.
    """
    first = next((i for i, line in enumerate(lines) if any(map(str.isalnum, line))), 0)
    whole, rest = lines[first].strip(), list(lines[first + 1 :])
    items = [whole] if BULLET.match(whole) else []
    while items and rest and BULLET.match(rest[0]):
        items.append(rest.pop(0))
    if first and OTHER_LABEL.match(whole):
        whole, rest = "", list(lines[first:])
    # A single `1. ...` or `- 3` may be how the answer is written; only several make a list.
    elif len(items) > 1 or (items and not (whole[0].isdigit() or _SIGNED.match(whole))):
        whole = ", ".join(BULLET.sub("", item, count=1).strip() for item in items)
    else:
        while rest and not any(map(str.isalnum, rest[-1])):
            rest.pop()
    value = re.sub(r"(?<=\d)\\text\{\s*([^{}]{1,40})\}", r" \1", one_line(whole))
    in_angles = _IN_ANGLES.fullmatch(value.strip(" .")) or is_unknown(value)
    return uncited(
        html.unescape(value if in_angles else re.sub(r"\A<\w{2,20}>|(?:</?\w{2,20}>\s*)+$", "", value))
    ), rest


def stated_answer(value: str, choices: Sequence[str] = ()) -> tuple[str | None, float | None]:
    """Returns the answer, and the confidence where it has one (`Paris (confidence 0.80)`).

    The answer is "" where none is stated, and None where the value states that it is not known. With choices it is one
    of them, named by text, letter or both. A letter that is another choice's text, or a letter and a text that
    disagree, name none.
    """
    value = one_line(value)
    # Exact spelling first, since later comparisons ignore case. Up to three characters it may be a letter: `(B)`.
    if len(value) > 3:
        for choice in choices:
            if value == one_line(choice):
                return choice, None
    value, confidence = undecorated(value)
    chosen = value
    if choices:
        # The one choice that the value names, by text, letter or both, with nothing behind it but a reason.
        texts = [_plain(choice) for choice in choices]
        folded = _LEAD_IN.sub("", _folded(value), count=1).rstrip("✅✔☑️ ")
        named = {i for i, text in enumerate(texts) if text and _plain(folded) == text}
        for i, text in enumerate(texts):
            # A choice's letter or text alone, or with the other behind it.
            letter, spelt = chr(ord("a") + i), re.escape(text) if text else "(?!)"
            by_letter = rf"[(\[*\"'`]{{0,3}}{letter}(?!\w)(?:{_BETWEEN}(?:(?:an?|the)\s)?{spelt}(?!\w))?"
            by_text = rf"(?:(?:an?|the)\s)?[*\"'`]{{0,3}}{spelt}(?!\w)(?:{_BETWEEN}[(\[]{letter}[)\]])?"
            others = [other for j, other in enumerate(texts) if j != i and other]
            found = (re.match(pattern, folded) for pattern in (by_letter, by_text))
            if any(match and ends_a_value(folded[match.end() :], others) for match in found):
                named.add(i)
        chosen = choices[named.pop()] if len({one_line(choices[i]) for i in named}) == 1 else ""
        # Not with a choice that was named: `unknown` may be one of the choices.
        named_text = "|".join(re.escape(text) for text in texts if text)
        begins = re.match(rf"[(\[]?[a-z]\s?[(\[)\].,:;–—-]|(?:{named_text})\b", _folded(value))
        if chosen or begins:
            return chosen, confidence
    return (None if is_unknown(value) else chosen), confidence


@lru_cache(maxsize=1024)
def _plain(text: str) -> str:
    """Returns a choice's text as it is compared: without case, decoration, closing marks, article and lead-in."""
    text = _LEAD_IN.sub("", _folded(undecorated(one_line(text))[0]), count=1)
    return re.sub(r"\A(?:an?|the)\s+", "", text.strip(" ,;:!?\"'*_`✅✔☑️").rstrip(" ."), count=1)


def _folded(text: str) -> str:
    """Folds case and width. A sign or a point stays with its number: `- 3` is `-3`, `.5` is `0.5`, `10²` is `10^2`."""
    text = re.sub(r"(?<=\d)(?=[₀-₉])", "_", one_line(text).translate(POWERS))
    text = one_line(unicodedata.normalize("NFKC", text)).casefold().replace("’", "'")
    if signed := _SIGNED.match(text):
        sign = "" if signed["sign"] in ("+", None) else "-"
        number = text[signed.end() :]
        text = f"{sign}{'0' if number.startswith('.') else ''}{number}"
    return text


MOST_WORDS = 40  # of a statement; a longer text is an answer
_WORDS_IN_PLACE = 3  # at most, of a statement in place of a text

# Latin words without accents. `ne`, `non` and the like negate in several languages.
_NEGATION = re.compile(
    r"not|cannot|\w+n't|no|none|nothing|neither|nor|never|too|unable|lack\w*|fail\w*|insufficient|impossible|sorry|afraid"
    r"|nicht|kein\w*|nichts|niet|geen|ne|n'\w+|pas|aucun\w*|rien|sin|ningun\w*|imposible|non|nessun\w*|impossibile|nao|nenhum\w*"
    r"|sem|impossivel|nie|brak|inte|inget|ikke|intet|yok|degil|tidak|khong|ei|nem|nu"
)
_EVIDENCE = re.compile(
    r"(?:image|imag|immag|pictur|photo|foto|bild|afbeeld|obraz|passage|text(?!il)|evidence|inform|context|document|source|data"
    r"|daten|datos|dados|donnee|detail|question|caption|table|row|column|angab|frage|pregunta|message|gorsel|resim|gambar|anh)\w*"
)
# With a negation these are about knowing anywhere; weak ones at the end, with evidence, or of the speaker.
_KNOWING = re.compile(
    r"(?:determin|identif|e?spe[cz]if|men[czt]|erwahn|vermeld|disclos|ascertain|infer|deduc|possib|posib|possiv|weiss|sais|sabe"
    r"|savoir|sei$|conn|conoc|conhec|bekannt|bekend|wiadomo|podan|framg|oplys|bilin|belirt|diketahui|disebut|biet|angegeben"
    r"|verfug|disponib|answer|repond|respond|beantwort|applic|puedo|peux|peut|kann)\w*"
)
_WEAKLY = re.compile(
    r"(?:know|visib|sichtbar|clear|certain|sure|shown?$|shows$|given$|gives?$|provid|avail|stat(?:e|es|ed)$|says?$|said$|tell|see|seen|find|found"
    r"|name|list|view|describ|legib|read|discern|recogni|enough|indi[cq]|reveal|record|report)\w*"
)
_DECLINES = re.compile(r"(?:help|assist|access|make|confirm|support|comply|open)\w*")  # where the speaker does
_SPEAKER = frozenset("i i'm i'd we ai ich wir je yo io eu".split())
_SMALL = re.compile(
    r"\w{1,3}|from|with|that|this|have|does|been|being|could|would|should|will|were|there|these|those|any|any\w+"
)
# Words that are a negation and knowing in one; at the end of a statement, or before its evidence.
_UNKNOWN = re.compile(
    r"un(?:known|disclosed|specified|stated|clear|certain|determined|available|identified|identifiable|answerable|mentioned|sure"
    r"|named|confirmed|recorded|reported|bekannt|klar)|indeterminate|illegible|unreadable|inconnue?|desconocid[oa]|desconhecid[oa]"
    r"|sconosciut[oa]|onbekend|okand|ukjent|ukendt|nieznan\w|neznam\w|necunoscut|ismeretlen|tuntematon|inconclusive"
)
_OF_THE_WORLD = re.compile(
    r"\bnon-|\bevidence (?:of|that|for)\b|\bdata (?=cent|base|set)"
)  # and not what a prompt shows
_OTHER_SCRIPTS = re.compile(
    r"[无無不没沒未](?:.{0,8}(?:知|确|確|提|信息|資訊|资料|数据|图|圖|显示|顯示|明|清|识别|辨|回答|给出|找到|判断|看到))"
    r"|[わ分]から?(?:ない|ず|りません)|情報.{0,3}(?:ない|なし|ありません)|でき(?:ない|ません)|記載.{0,3}(?:ない|なし|ありません)"
    r"|(?:알|확인|판단|식별|제공|언급|정보|명시|나와|보이).{0,12}(?:없|않|못|안)|모르|모름|불명"
    r"|(?:لا|لم|غير|ليس|ليست)\s?.{0,20}(?:عرف|معروف|ذكر|مذكور|معلوم|حدد|محدد|صور|يمكن|توجد|متوفر|واضح|علم)"
    r"|\b(?:не|нет|ни|немає|невозможно)\b.{0,30}(?:извест|указан|информ|інформ|изобр|картин|опред|зна|данн|текст|могу|видн|ответ|упом|ясн)"
    r"|неизвестн|невідом|неясно|άγνωστ|δεν\s.{0,30}(?:αναφέρ|γνωρίζ|γνωστ|μπορ)|ไม่(?:ทราบ|ระบุ|มี|สามารถ|พบ|ปรากฏ)"
    r"|अज्ञात|(?:जानकारी|पता|ज्ञात|उल्लेख|चित्र).{0,20}नहीं|לא\s.{0,20}(?:ידוע|צוין|ניתן)"
)
_CLAUSE_AFTER = re.compile(r"(?:yes|no)\s?[,.;:!?–—-]", re.IGNORECASE)  # before a clause about the evidence


def is_unknown(answer: str) -> bool:
    """True where the answer states that it is not known, or declines. `Unknown Pleasures` is an answer."""
    text = unicodedata.normalize("NFKC", answer).replace("’", "'").strip(" .!*_`\"'()[]{}<>")
    folded = text.casefold()
    if re.fullmatch(r"n/?a|null|nil|no answer|\?+", folded):
        return True
    if _CLAUSE_AFTER.match(text):
        return False
    if not text.isascii() and len(text) < 10 * MOST_WORDS and _OTHER_SCRIPTS.search(folded):
        return True
    spelt = unicodedata.normalize("NFKD", _OF_THE_WORLD.sub("", text))
    plain = "".join(mark for mark in spelt if not unicodedata.combining(mark))
    written = re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", plain[: 20 * MOST_WORDS])
    words = [word.casefold() for word in written]
    if not words or len(words) > MOST_WORDS:
        return False
    evidence = any(map(_EVIDENCE.fullmatch, words))
    of_speaker = not _SPEAKER.isdisjoint(words)
    if any(map(_UNKNOWN.fullmatch, words)):
        last = _UNKNOWN.fullmatch(words[-1]) and words[-2:-1] != ["or"]  # `or unknown` ends the form
        stated = last or evidence or re.match(r"unknown[,;.:]", folded) is not None
    elif any(map(_NEGATION.fullmatch, words)):
        weakly = any(map(_WEAKLY.fullmatch, words if of_speaker or evidence else words[-1:]))
        stated = (
            evidence
            or weakly
            or any(map(_KNOWING.fullmatch, words))
            or (of_speaker and any(word == "sorry" or _DECLINES.fullmatch(word) for word in words))
        )
        # `The first picture does not, but the second one does` answers.
        stated = stated and (of_speaker or not re.search(r"\b(?:but|while|whereas)\b", folded))
    else:
        return False
    kinds = (_NEGATION, _EVIDENCE, _KNOWING, _WEAKLY, _DECLINES, _UNKNOWN, _SMALL)
    others = [word for word in written if not any(kind.fullmatch(word.casefold()) for kind in kinds)]
    is_title = bool(others) and all(word[0].isupper() for word in written if len(word) > 3)
    return bool(stated) and not is_title


def is_unstated(text: str) -> bool:
    """True for a few words in place of a free text: `Unknown`, `Not described`. `No source` is a text, about the
    evidence."""
    words = re.findall(r"\w+", text.casefold())
    return len(words) <= _WORDS_IN_PLACE and is_unknown(text) and not any(map(_EVIDENCE.fullmatch, words))

"""Tells an answer from a statement that there is none: not known, not in the evidence, or refused.

Such a statement has a negation, and a word of knowing or of the evidence. The words are those of some twenty languages;
a title (`No Information Society`) has other words, each with a capital, and is an answer.
"""

from __future__ import annotations

import re
import unicodedata

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
_WHOLE = re.compile(r"n/?a|null|nil|no answer|\?+")
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
_YES_OR_NO = re.compile(r"(?:yes|no)\s?[,.;:!?–—-]", re.IGNORECASE)  # before a clause about the evidence


def is_unknown(answer: str) -> bool:
    """True where the answer states that it is not known, or declines. `Unknown Pleasures` is an answer."""
    text = unicodedata.normalize("NFKC", answer).replace("’", "'").strip(" .!*_`\"'()[]{}<>")
    folded = text.casefold()
    if _WHOLE.fullmatch(folded):
        return True
    if _YES_OR_NO.match(text):
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

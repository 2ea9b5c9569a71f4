"""Lexical analysis for any script: which terms a text is indexed by, and which terms of a question are looked
up.

Scripts that write no blanks between words (Han, Kana, Hangul, Thai, Lao, Khmer, Burmese, Tibetan) are indexed
by single characters and by overlapping pairs, so that a question of one or two characters finds its text; a
question's run of two and more characters is looked up by its pairs alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final

from memdb.language.patterns import lazy

MAX_TOKEN_CHARS: Final = 1_000  # FTS5 cuts longer ones at 32,768 bytes, inside a character if need be

_UNSPACED_BLOCKS = (
    ("\u0e00", "\u0eff"),  # Thai, Lao
    ("\u0f00", "\u0fff"),  # Tibetan
    ("\u1000", "\u109f"),  # Burmese
    ("\u1100", "\u11ff"),  # Hangul Jamo
    ("\u1780", "\u17ff"),  # Khmer
    ("\u3040", "\u312f"),  # Hiragana, Katakana, Bopomofo
    ("\u3130", "\u318f"),  # Hangul compatibility Jamo
    ("\u31a0", "\u31bf"),  # Bopomofo extended
    ("\u31f0", "\u31ff"),  # Katakana extensions
    ("\u3400", "\u4dbf"),  # Han extension A
    ("\u4e00", "\u9fff"),  # Han
    ("\ua000", "\ua4cf"),  # Yi
    ("\uac00", "\ud7ff"),  # Hangul syllables
    ("\uf900", "\ufaff"),  # Han compatibility
    ("\U0001b000", "\U0001b16f"),  # Kana supplements
    ("\U00020000", "\U0003ffff"),  # Han extensions B and later
)


# Function words of a question: they choose nothing, and looking them up costs most of a lexical search.
STOP_WORDS: Final = frozenset(
    """
    a an the and or but if of at by for with about to from in on is are was were be been being am do does
    did doing have has had having i me my you your he him his she her it its we us our they them their
    this that these those what which who whom whose when where why how s t re ve ll d m as not no so than
    too very can will would could should might may must there here then any some such into out up down
    over again once both each more most other own same only just during after before
    """.split()
)

_UNSPACED = lazy("[" + "".join(f"{a}-{b}" for a, b in _UNSPACED_BLOCKS) + "]+")
# Normalising sorts the marks on one letter, in quadratic time: no writing has more (UAX #15, Stream-Safe).
_MARK_BLOCKS = "".join(
    [
        "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a",
        "\u064b-\u065f\u1ab0-\u1ace\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f",
    ]
)
_MARKS = lazy(f"([{_MARK_BLOCKS}]{{30}})[{_MARK_BLOCKS}]+")
_ASCII_TOKEN = lazy("[0-9a-z]+")


def fold(text: str) -> str:
    """`text` in compatibility form, without case and without the diacritics of alphabetic scripts."""
    if text.isascii():
        return text.lower()
    text = _MARKS.sub(r"\1", text)
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    bare = "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f")
    return unicodedata.normalize("NFC", bare)


def _is_token_character(character: str) -> bool:
    """Letters, marks, digits and private-use characters, as in the `categories` of the FTS5 tables."""
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Mc", "Me", "Co")


def tokens(text: str) -> Iterator[str]:
    """The folded words of `text` in pieces of MAX_TOKEN_CHARS; a run of an unspaced script is one."""
    for word in _words(text):
        for start in range(0, len(word), MAX_TOKEN_CHARS):
            yield word[start : start + MAX_TOKEN_CHARS]


def _words(text: str) -> Iterator[str]:
    folded = fold(text)
    if folded.isascii():
        yield from _ASCII_TOKEN.findall(folded)
        return
    for run in "".join(c if _is_token_character(c) else " " for c in folded).split():
        start = 0
        for match in _UNSPACED.finditer(run):
            if match.start() > start:
                yield run[start : match.start()]
            yield match.group()
            start = match.end()
        if start < len(run):
            yield run[start:]


def document_terms(text: str) -> str:
    """The terms `text` is indexed by, separated by blanks."""
    if text.isascii():  # no script of these is unspaced
        words = _ASCII_TOKEN.findall(text.lower())
        if max(map(len, words), default=0) <= MAX_TOKEN_CHARS:
            return " ".join(words)
    terms: list[str] = []
    for token in tokens(text):
        if _UNSPACED.match(token):
            terms.extend(token)
            terms.extend(token[i : i + 2] for i in range(len(token) - 1))
        else:
            terms.append(token)
    return " ".join(terms)


def question_terms(text: str, *, stop: frozenset[str] = frozenset(), limit: int) -> list[str]:
    """The distinct terms of a question to look up, in order of first appearance, at most `limit`.

    Words in `stop` are left out unless nothing else would remain.
    """
    found: dict[str, None] = {}
    stopped: dict[str, None] = {}
    for token in tokens(text):
        if not _UNSPACED.match(token):
            (stopped if token in stop else found)[token] = None
        elif len(token) == 1:
            found[token] = None
        else:
            found.update(dict.fromkeys(token[i : i + 2] for i in range(len(token) - 1)))
    return list(found or stopped)[:limit]

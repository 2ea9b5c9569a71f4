"""The cases of users about language, odd queries and scopes (19 to 21); the others are in test_cases.py."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb.activate.retrieve import SEARCHES
from memdb.errors import ScopeError
from memdb.models.fakes import HashEncoder
from memdb.records import Message, Scope
from tests.conftest import OpenMemory
from tests.strategies import NASTY, SCRIPTS


def contents(found: memdb.WorkingMemory) -> list[str]:
    return [evidence.text for evidence in found]


# --- Language and lexical search

# what is asked, and the stored text that must come first
ASKED = [
    ("海底捞", "昨天我们去吃海底捞"),
    ("火", "他怕火"),
    ("餐厅", "那家餐厅很贵"),
    ("上海外滩", "我在上海外滩散步"),
    ("서울", "우리는 서울에서 만났다"),
    ("김치", "할머니가 김치를 담갔다"),
    ("東京", "妹は東京に住んでいる"),
    ("ラーメン", "ラーメンを食べた"),
    ("ﾗｰﾒﾝ", "ラーメンを食べた"),
    ("กรุงเทพ", "พี่สาวอยู่ที่กรุงเทพ"),
    ("ភ្នំពេញ", "បងស្រីរស់នៅភ្នំពេញ"),
    ("ရန်ကုန်", "အစ်မကရန်ကုန်မှာနေတယ်"),
    ("ལྷ་ས", "ང་ལྷ་ས་ལ་བསྡད"),
    ("cafe", "We met in the café"),
    ("CAFÉ", "We met in the café"),
    ("cafe\u0301", "We met in the café"),
    ("naive", "That was naïve of me"),
    ("Zoe", "Zoë sent a card"),
    ("strasse", "Die Straße ist lang"),
    ("STRASSE", "Die Straße ist lang"),
    ("istanbul", "İstanbul'da çay içtim"),
    ("ΟΔΥΣΣΕΥΣ", "ο Οδυσσεύς έφυγε"),
    ("οδυσσευς", "ο Οδυσσεύς έφυγε"),
    ("москве", "Моя сестра живёт в Москве"),
    ("живет", "Моя сестра живёт в Москве"),
    ("القاهرة", "أختي تعيش في القاهرة"),
    ("ירושלים", "אחותי גרה בירושלים וגם ירושלים יפה"),
    ("दिल्ली", "मेरी बहन दिल्ली में है"),
    ("pho", "Tôi ăn phở bò"),
    ("Hà Nội", "Anh ấy sống ở Hà Nội"),
    ("ＡＢＣ", "the abc clinic"),
    ("ﬁreﬂy", "a firefly landed"),
    ("ⅷ", "chapter VIII was long"),
    ("٣٤٥", "الرقم ٣٤٥"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[memdb.Memory]:
    """Texts of every script, each with distractors that share some of its characters."""
    texts = list(dict.fromkeys(text for _, text in ASKED))
    texts += ["天气很好", "我喜欢面条", "海边有人捞鱼", "底下有海草", "밥을 먹었다", "오늘은 날씨가 좋다"]
    texts += [
        "電車に乗った",
        "カメラを買った",
        "อากาศดีมาก",
        "We met in the park",
        "Погода хорошая",
        "الطقس جميل",
    ]
    texts += [f"Plain remark number {n} about the weather" for n in range(40)]
    encoder = HashEncoder(256)
    with memdb.open(tmp_path_factory.mktemp("library") / "m.memdb", encoder=encoder) as memory:
        for number, text in enumerate(texts):
            memory.add([Message("Ana", text)], session=f"s{number}")
        yield memory


@pytest.mark.parametrize("channels", [None, ["message_lexical"]], ids=["all", "lexical"])
@pytest.mark.parametrize(("question", "expected"), ASKED, ids=[ascii(question) for question, _ in ASKED])
def test_case_19_words_of_any_script_find_their_message_first(
    library: memdb.Memory, question: str, expected: str, channels: list[str] | None
) -> None:
    assert contents(library.recall(question, channels=channels))[0] == expected


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[memdb.Memory]:
    """One sentence of each script."""
    with memdb.open(tmp_path_factory.mktemp("scripts") / "m.memdb", encoder=HashEncoder(64)) as memory:
        for script, text in SCRIPTS.items():
            memory.add([Message("Ana", text)], session=script)
        yield memory


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize("script", sorted(SCRIPTS.keys() - {"emoji"}))
def test_case_19_every_script_in_every_normal_form(scripts: memdb.Memory, script: str, form: str) -> None:
    question = unicodedata.normalize(form, SCRIPTS[script])  # type: ignore[arg-type]
    for channel in ("message_lexical", "unit_lexical"):
        found = scripts.recall(question.upper(), channels=[channel])
        assert contents(found)[0] == SCRIPTS[script], channel


QUOTED = [
    "Bob's bike is blue",
    "The part is LH-1172",
    "We run Ubuntu 20.04",
    'He said "x',
    "AND OR",
    "a * b",
    "NEAR(",
    "col:value {a b}",
    "C++ and C#",
    "user@example.org",
    "https://example.org/a?b=c&d",
    "50% off_sale",
    "x -y +z",
    "SELECT * FROM message; DROP TABLE message; --",
    "tab\tand\nnewline",
    "nul\x00inside",
    "half \ud800 pair",
    "\u202eright to left\u202c",
    "zero\u200bwidth",
    "$.a[0]",
    "' OR 1=1",
    "\\ back \\ slash",
    "NOT that",
    "^caret",
]


@pytest.fixture(scope="module")
def quotes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[memdb.Memory]:
    with memdb.open(tmp_path_factory.mktemp("quotes") / "m.memdb", encoder=HashEncoder(256)) as memory:
        for number, text in enumerate([*QUOTED, *(f"distractor {n} and or not near x" for n in range(30))]):
            memory.add([Message("Ana", text, id=str(number))], session=f"s{number}")
        yield memory


@pytest.mark.parametrize("number", range(len(QUOTED)))
def test_case_20_whatever_is_asked_finds_itself_first(quotes: memdb.Memory, number: int) -> None:
    found = quotes.recall(QUOTED[number])
    assert found[0].source[0].id == str(number)


@pytest.mark.parametrize(
    "question", [*NASTY, "word " * 2_000, "(" * 10_000, "海" * 10_000, "\x00" * 10_000], ids=ascii
)
def test_case_20_any_text_is_a_legal_question(quotes: memdb.Memory, question: str) -> None:
    for channels in (None, *([channel] for channel in memdb.CHANNELS)):
        found = quotes.recall(question, channels=channels)
        assert len(found) <= 10
        assert [evidence.rank for evidence in found] == list(range(1, len(found) + 1))
    assert len(quotes.recall("parrot", scope="nobody")) == 0


@pytest.mark.parametrize("question", [None, b"parrot", 3, ["parrot"], "x" * 100_001])
def test_case_20_what_is_no_text_is_a_typed_error(quotes: memdb.Memory, question: Any) -> None:
    with pytest.raises(memdb.InputError) as caught:
        quotes.recall(question)
    assert caught.value.hint


# --- Scope

USERS, AGENTS, RUNS = (None, "ana", "ben"), (None, "helper", "coder"), (None, "r1", "r2")
EVERY_SCOPE = [Scope(*parts) for parts in itertools.product(USERS, AGENTS, RUNS)]


def sees(reading: Scope | None, written: Scope) -> bool:
    """Named parts agree; a scope that names none sees only what nobody named."""
    if reading is None:
        return True
    if reading == Scope():
        return written == Scope()
    pairs = zip(
        (reading.user, reading.agent, reading.run), (written.user, written.agent, written.run), strict=True
    )
    return all(wanted is None or wanted == found for wanted, found in pairs)


def words_of(scope: Scope) -> str:
    return f"The parrot of {scope.user} {scope.agent} {scope.run} lives in Porto since May 2023."


@pytest.fixture(scope="module")
def shared_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scopes") / "m.memdb"
    with memdb.open(path, encoder=HashEncoder(64)) as memory:
        for scope in EVERY_SCOPE:
            memory.add([Message("Ana", words_of(scope), "2023-05-07")], scope=scope, session="s")
    return path


@pytest.mark.parametrize("reading", [*EVERY_SCOPE, None], ids=str)
def test_case_21_a_question_sees_what_its_scope_allows(
    shared_file: Path, open_memory: OpenMemory, reading: Scope | None
) -> None:
    allowed = sorted(words_of(written) for written in EVERY_SCOPE if sees(reading, written))
    own = "*" if reading is None else reading
    for memory, scope in [
        (open_memory(shared_file, scope=own), None),
        (open_memory(shared_file, scope="*"), own),
        (open_memory(shared_file, scope=own, read_only=True), own),
    ]:
        question = "Where did Ana's parrot live in May 2023, in Porto?"
        for channels in (None, *([channel] for channel in SEARCHES)):
            found = memory.recall(question, k=50, scope=scope, channels=channels)
            assert sorted(contents(found)) == allowed, channels
            assert sorted(u.fact_text for e in found for u in e.facts) == allowed
        assert len(memory.sessions(scope=scope)) == len(allowed)
        assert sorted(m.content for m in memory.messages("s", scope=scope)) == allowed


def test_case_21_the_nearest_of_others_do_not_crowd_out_ones_own(memory: memdb.Memory) -> None:
    many = [Message("Ana", f"The parrot sings, said {n}.", "2023-05-07") for n in range(300)]
    memory.add(many, scope=Scope(user="ben"))
    memory.add([Message("Ana", "A parrot came once.", "2023-05-07")], scope=Scope(user="ana"))
    for channels in (None, *([channel] for channel in SEARCHES)):
        found = memory.recall("the parrot sings on 7 May 2023", scope="ana", channels=channels)
        assert contents(found) == ["A parrot came once."], channels


@pytest.mark.parametrize("own", EVERY_SCOPE, ids=str)
def test_case_21_no_call_reaches_beyond_the_memorys_own_scope(
    shared_file: Path, open_memory: OpenMemory, own: Scope
) -> None:
    if own == Scope():
        pytest.skip("who opens without a scope names one at each call")
    memory = open_memory(shared_file, scope=own, read_only=True)
    for asked in (*EVERY_SCOPE, "*"):
        inside = asked != "*" and all(
            mine is None or mine == theirs
            for mine, theirs in zip(
                (own.user, own.agent, own.run),
                (asked.user, asked.agent, asked.run),
                strict=True,  # type: ignore[union-attr]
            )
        )
        if inside:
            assert len(memory.recall("parrot", scope=asked)) >= 1
            continue
        for call in (
            lambda asked=asked: memory.recall("parrot", scope=asked),
            lambda asked=asked: memory.sessions(scope=asked),
            lambda asked=asked: memory.messages("s", scope=asked),
            lambda asked=asked: memory.add([Message("Ana", "hello")], scope=asked),
        ):
            with pytest.raises(ScopeError):
                call()


def test_case_21_adding_for_everyone_is_refused(open_memory: OpenMemory) -> None:
    memory = open_memory(scope="*")
    for scope in (None, "*"):
        with pytest.raises(ScopeError):
            memory.add([Message("Ana", "hello")], scope=scope)
    assert memory.about().counts["messages"] == 0

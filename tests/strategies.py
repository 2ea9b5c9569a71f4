"""Hypothesis strategies for what users give: texts of every script, clock readings, messages, scopes."""

from __future__ import annotations

import datetime as dt
from typing import Final

from hypothesis import strategies as st

import memdb

# A sentence of each script, so that a generated text is one that somebody could write.
SCRIPTS: Final = {
    "latin": "Zoë ate crème brûlée in the café",
    "vietnamese": "Tôi thích ăn phở ở Hà Nội",
    "turkish": "İstanbul'da ılık çay içtim",
    "german": "Die Straße in Köln war naß",
    "greek": "Ο Οδυσσέας πήγε στην Αθήνα",
    "cyrillic": "Моя сестра живёт в Москве",
    "arabic": "أختي تعيش في القاهرة",
    "hebrew": "אחותי גרה בירושלים",
    "devanagari": "मेरी बहन दिल्ली में रहती है",
    "tamil": "என் சகோதரி சென்னையில் வசிக்கிறாள்",
    "thai": "พี่สาวของฉันอยู่ที่กรุงเทพ",
    "khmer": "បងស្រីខ្ញុំរស់នៅភ្នំពេញ",
    "burmese": "အစ်မက ရန်ကုန်မှာနေတယ်",
    "tibetan": "ངའི་ཨ་ཅག་ལྷ་སར་བསྡད",
    "chinese": "昨天我们去吃海底捞火锅",
    "japanese": "妹は東京でラーメンを食べた",
    "korean": "우리는 서울에서 김치를 먹었다",
    "emoji": "🙂🙃 👩‍👩‍👧 🏳️‍🌈",
}
NASTY: Final = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "\ud800",
    "x\udfffy",
    "\ufeff",
    "\u200b",
    "\u2028",
    '"',
    "''",
    '"x',
    "AND OR",
    "NOT",
    "*",
    "a*",
    "^a",
    "NEAR(",
    "own: x",
    "{a b}: c",
    "a-b",
    "a + b",
    "(",
    ")",
    "%",
    "_",
    "\\",
    "$.a",
    ";",
    "-- ",
    "/*",
    "Bob's",
    "LH-1172",
    "20.04",
    "C++",
    "e\u0301",
    "ﬁ",
    "Ⅷ",
    "İ",
    "ß",
    "ς",
    "\U0001f600",
    "\U000e0041",
    "٣",
    "½",
    "\u0345",
    "\u0300",
    "a" * 300,
    "é" * 300,
    "海" * 300,
    "? ? ?",
    "a? b! c.",
    "1" * 400,
)

words: Final = st.sampled_from(
    "parrot piano Porto hospital rain blue seven Ines Tom cousin march oven lamp river Rome Monday".split()
)
sentence: Final = st.lists(words, min_size=1, max_size=8).map(" ".join)
text: Final = st.one_of(
    sentence,
    sentence.map("I saw the {} yesterday.".format),
    sentence.map("Did you see the {}?".format),
    st.sampled_from(sorted(SCRIPTS.values())),
    st.sampled_from(NASTY),
    st.text(max_size=40),
)
speakers: Final = st.sampled_from(["Ana", "Ben", "user", "assistant", "Zoë Smith", "李", "🙂"])
scopes: Final = st.builds(
    memdb.Scope,
    st.sampled_from([None, "ana", "ben"]),
    st.sampled_from([None, "helper"]),
    st.sampled_from([None, "run 1"]),
)
zones: Final = st.integers(-14 * 60, 14 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
clocks: Final = st.one_of(
    st.none(),
    st.dates(),
    st.datetimes(timezones=st.one_of(st.none(), zones)),
    st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)).map(dt.date.isoformat),
    st.integers(0, 2**53).map("serial-{}".format),
)


NO_ID: Final = st.none()


def messages(ids: st.SearchStrategy[str | None] = NO_ID) -> st.SearchStrategy[memdb.Message]:
    """A message that can be stored."""
    return st.builds(
        memdb.Message,
        speaker=speakers,
        content=text,
        said_at=clocks,
        id=ids,
        role=st.sampled_from([None, "user", "assistant", ""]),
        image_caption=st.one_of(st.none(), text),
        location=st.sampled_from([None, "", "Porto"]),
    )


@st.composite
def talk(draw: st.DrawFn, most: int = 30) -> list[memdb.Message]:
    """A conversation whose messages often go on about what the one before was about, or say it again."""
    said: list[memdb.Message] = []
    for _ in range(draw(st.integers(0, most))):
        kind = draw(st.sampled_from(["other", "same", "more", "more", "any"]))
        before = said[-1].content if said else "parrot"
        if kind == "same":
            content = before
        elif kind == "more":
            content = " ".join([*before.split()[-3:], draw(words)])
        else:
            content = draw(sentence if kind == "other" else text)
        caption = draw(st.sampled_from([None, None, None, "a red lamp"]))
        said.append(memdb.Message("Ana", content, image_caption=caption))
    return said

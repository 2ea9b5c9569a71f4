from __future__ import annotations

import io
import json
import time
import unicodedata

import pytest

from memdb.serve import plain

HARMLESS = [
    "",
    "plain",
    "café",
    "海底捞 서울",
    "a\u200db",
    "a\u200cb",
    "👩\u200d👧",
    "❤👍🏽🇵🇹",
    "می\u200cخواهم",
    "a\tb",
    "x\ny",
]
HARMFUL = {
    "title": ("a\x1b]0;owned\x07b", "ab"),
    "title ended by ST": ("a\x1b]0;owned\x1b\\b", "ab"),
    "title that never ends": ("a\x1b]0;owned", "a0;owned"),
    "colour": ("a\x1b[31;1mb\x1b[0m", "ab"),
    "cursor": ("a\x1b[2J\x1b[1;1Hb", "ab"),
    "one-byte CSI": ("a\x9b31mb", "ab"),
    "one-byte OSC": ("a\x9d0;owned\x9cb", "ab"),
    "charset": ("a\x1b(0b", "ab"),
    "clipboard": ("a\x1b]52;c;cm0gLXJm\x07b", "ab"),
    "device control": ("a\x1bP+q544e\x1b\\b", "ab"),
    "nested": ("a\x1b\x1b[31m[31mb", "a[31mb"),
    "bell, backspace, delete": ("a\x07\x08\x7fb", "ab"),
    "carriage return": ("paid\rfree", "paid\nfree"),
    "every line end": ("1\r\n2\x0b3\x0c4\x855\u20286\u20297", "1\n2\n3\n4\n5\n6\n7"),
    "bidi override": ("user\u202egnp.exe\u202c", "usergnp.exe"),
    "bidi isolate": ("\u2066a\u2069", "a"),
    "zero width": ("pass\u200bword\u2060\ufeff", "password"),
    "variation selectors": ("❤\ufe0f葛\U000e0100", "❤葛"),
    "marks of direction": ("a\u061c\u200e\u200fb", "ab"),
    "fillers": ("a\u115f\u1160\u3164\uffa0b", "ab"),
    "soft hyphen and joiner": ("pass\u00adwo\u034frd", "password"),
    "tags": ("a\U000e0041\U000e0042", "a"),
    "half a pair": ("a\ud83d", "a\ufffd"),
    "NUL": ("a\x00b", "ab"),
}


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_left_alone(text):
    assert plain.block(text) == text


@pytest.mark.parametrize("kind", HARMFUL)
def test_what_a_terminal_would_obey_is_gone(kind):
    text, expected = HARMFUL[kind]
    assert plain.block(text) == expected
    assert plain.block(expected) == expected


def test_no_control_character_survives_and_one_line_stays_one():
    every = "".join(
        map(chr, [*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x2070)])
    )
    assert set(plain.block(f"a{every}b")) <= set("\n\tab\ufffd")
    assert set(plain.line(f"a{every}b")) <= set(" ab")


# DerivedCoreProperties.txt of Unicode 16: Default_Ignorable_Code_Point, first and last of each range.
IGNORABLE = """00AD 00AD 034F 034F 061C 061C 115F 1160 17B4 17B5 180B 180F 200B 200F 202A 202E 2060 206F
3164 3164 FE00 FE0F FEFF FEFF FFA0 FFA0 FFF0 FFF8 1BCA0 1BCA3 1D173 1D17A E0000 E0FFF""".split()
JOINERS = {0x200C, 0x200D}
SEEN = {0x06DD, 0x070F, 0x08E2, 0x110BD, 0x110CD, *range(0x600, 0x606), *range(0x890, 0x892),
        *range(0x13430, 0x13440)}  # fmt: skip


def test_no_character_that_shows_nothing_survives():
    """But the joiners. Of format characters (Cf) beside those listed, only those that are seen do."""
    pairs = zip(IGNORABLE[::2], IGNORABLE[1::2], strict=True)
    hidden = {code for first, last in pairs for code in range(int(first, 16), int(last, 16) + 1)}
    hidden |= {code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"} - SEEN
    for code in hidden - JOINERS:
        assert plain.line(f"a{chr(code)}b") == "ab", hex(code)
        shown = plain.as_json(f"a{chr(code)}b")
        assert shown.isascii()
        assert json.loads(shown) == f"a{chr(code)}b"
    for code in SEEN | JOINERS:
        assert plain.line(f"a{chr(code)}b") == f"a{chr(code)}b", hex(code)


@pytest.mark.parametrize("unit", ["\x1b]", "\x9d", "\x1b[", "\x9b1", "\x1bP\x9d"])
def test_hostile_text_takes_linear_time(unit):
    def seconds(count: int) -> float:
        start = time.process_time()
        plain.block(unit * count)
        return time.process_time() - start

    seconds(1_000)
    assert seconds(50_000) < 40 * max(seconds(5_000), 0.002)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "ascii"])
@pytest.mark.parametrize("text", [*HARMLESS, *(bad for bad, _ in HARMFUL.values())])
def test_json_keeps_every_character_and_shows_none_that_harms(monkeypatch, encoding, text):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    shown = plain.as_json({"text": text})
    assert json.loads(shown) == {"text": text}
    assert plain.block(shown) == shown
    shown.encode(encoding)

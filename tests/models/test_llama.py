"""The llama.cpp backbone: what needs no model, and with MEMDB_GGUF (the path of a chat model) all of it."""

from __future__ import annotations

import gc
import json
import os
import struct
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb import settings
from memdb.errors import InputError, ModelDamaged, ModelError, ModelNotFound
from memdb.models import llama
from memdb.models.llama import LlamaBackbone
from memdb.models.llama_library import library as loaded
from memdb.models.llama_vocabulary import GRAMMAR_REPEATS, Characters, Constraint, grammar
from memdb.models.ports import Turn, valid_unicode

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1"  # the model these figures were taken with
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONTEXT_TOKENS = 1024
SYSTEM = Turn("system", "You list what people did. Answer in a few words.")
ASK = [SYSTEM, Turn("user", "Ana broke her wrist on Tuesday. Who broke what?")]
UNITS: dict[str, object] = {
    "type": "object",
    "properties": {
        "units": {
            "type": "array",
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "maxLength": 40},
                    "kind": {"enum": ["event", "state"]},
                    "places": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 2},
                },
                "required": ["text", "kind", "places"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["units"],
    "additionalProperties": False,
}


@pytest.fixture
def library() -> Any:
    return pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")


@pytest.fixture(scope="module")
def file() -> Path:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    if not (path := os.environ.get("MEMDB_GGUF")):
        pytest.skip("MEMDB_GGUF names no model file")
    return Path(path)


@pytest.fixture(scope="module")
def backbone(file: Path) -> Iterator[LlamaBackbone]:
    made = LlamaBackbone(file, context_tokens=CONTEXT_TOKENS, threads=1)
    yield made
    made.close()


@pytest.fixture
def bits(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The logits of every token chosen from now on."""
    seen: list[bytes] = []
    choose = LlamaBackbone._choose

    def watched(self: LlamaBackbone, constraint: Any) -> int:
        pointer = loaded().llama_get_logits_ith(self._context, -1)
        seen.append(np.ctypeslib.as_array(pointer, (self._vocabulary.size,)).tobytes())
        return choose(self, constraint)

    monkeypatch.setattr(LlamaBackbone, "_choose", watched)
    return seen


def forget(backbone: LlamaBackbone) -> None:
    """Leave the context as it is, and rely on nothing in it."""
    backbone._held = []


# --- Without a model


def test_it_needs_a_file_and_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelNotFound, match=r"missing\.gguf"):
        LlamaBackbone(tmp_path / "missing.gguf")
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(ModelNotFound, match="llama-cpp-python") as caught:
        LlamaBackbone(tmp_path / "a.gguf")
    assert "memdb-engine[llm]" in caught.value.hint


@pytest.mark.parametrize("name", ["x" * 5_000, "a\0b", "\udcff"], ids=["long", "zero", "no text"])
def test_a_name_no_file_has_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelNotFound, match="no model file"):
        LlamaBackbone(tmp_path / f"{name}.gguf")


def test_a_path_goes_to_llama_cpp_in_the_bytes_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    class Library:
        def llama_model_default_params(self) -> None:
            return None

        def llama_model_load_from_file(self, path: bytes, options: None) -> None:
            asked.append(path)

    path = tmp_path / os.fsdecode(b"caf\xe9.gguf")
    try:
        path.write_bytes(llama.MAGIC)
    except OSError:
        pytest.skip("the file system takes names of UTF-8 alone")
    monkeypatch.setattr(llama, "library", Library)
    with pytest.raises(ModelDamaged):
        LlamaBackbone(path)
    assert asked == [os.fsencode(path)]


@pytest.mark.parametrize(
    "data",
    [b"", b"GG", b"rubbish", b"GGUF", b"GGUF\3\0\0\0", b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60)],
    ids=repr,
)
@pytest.mark.usefixtures("library")
def test_rubbish_is_damage(tmp_path: Path, data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.gguf").write_bytes(data)
    with pytest.raises(ModelDamaged, match=r"a\.gguf"):
        LlamaBackbone(tmp_path / "a.gguf")
    assert capfd.readouterr().err == ""


def decoded(pieces: list[bytes]) -> list[str]:
    """What is told of them, which together is the text."""
    told: list[str] = []
    characters = Characters(told.append)
    for piece in pieces:
        characters.add(piece)
    assert "".join(told) == characters.text
    return told


def test_a_character_that_was_cut_is_left_out() -> None:
    whole = "añ猫😀".encode()
    texts = ["".join(decoded([whole[:end]])) for end in range(len(whole) + 1)]
    assert texts == ["", "a", "a", "añ", "añ", "añ", "añ猫", "añ猫", "añ猫", "añ猫", "añ猫😀"]
    assert decoded([b"a\xffb"]) == ["a\ufffdb"]


@given(st.text(), st.binary(max_size=3), st.data())
def test_characters_are_told_whole_wherever_their_bytes_are_split(
    text: str, rubbish: bytes, data: st.DataObject
) -> None:
    raw = valid_unicode(text).encode() + rubbish
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    told = decoded(pieces)
    assert "" not in told
    assert told == decoded([piece for piece in pieces if piece])
    assert "".join(told) == "".join(decoded([raw]))
    assert "".join(told).startswith(valid_unicode(text))


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("key", ["maxLength", "maxItems"])
def test_grammars_that_count_too_far_are_refused_before_llama_cpp_sees_them(key: str) -> None:
    bounded = {"type": "array" if key == "maxItems" else "string", "items": {"type": "string"}}
    assert grammar({"properties": {"a": {**bounded, key: GRAMMAR_REPEATS}}})
    with pytest.raises(ModelError, match="too far"):
        grammar({"properties": {"a": {**bounded, key: GRAMMAR_REPEATS + 1}}})


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nothing"},
        {"properties": 7},
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"properties": {"a": {"$ref": "https://example.org/schema"}}},
        {"type": "string", "pattern": "(?=a)"},
    ],
    ids=str,
)
def test_schemas_that_no_grammar_can_say_are_refused(schema: dict[str, object]) -> None:
    with pytest.raises(ModelError, match="grammar"):
        grammar(schema)


# --- With one


def test_it_says_which_file_it_is(backbone: LlamaBackbone, file: Path) -> None:
    assert backbone.name == file.stem
    assert backbone.identity == f"{file.stem}@{backbone.sha256[:8]}"
    assert str(file) in repr(backbone)
    if file.stem == SMOLLM2:
        assert backbone.sha256 == SMOLLM2_SHA256


def test_a_file_cut_short_is_damage(file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with file.open("rb") as stream:
        head = stream.read(8_000_000)
    for length in (100, 10_000, 1_000_000, len(head)):
        (tmp_path / "cut.gguf").write_bytes(head[:length])
        with pytest.raises(ModelDamaged, match="cut"):
            LlamaBackbone(tmp_path / "cut.gguf")
    assert capfd.readouterr().err == ""


def test_the_context_is_at_most_what_was_trained(file: Path) -> None:
    whole = LlamaBackbone(file, threads=1)
    trained = loaded().llama_model_n_ctx_train(loaded().llama_get_model(whole._context))
    assert whole.context_tokens == min(trained, settings.LLAMA_CONTEXT_TOKENS)
    whole.close()
    for asked in (0, 1, -5, trained + 1):
        with pytest.raises(InputError, match=str(trained)):
            LlamaBackbone(file, context_tokens=asked)
    with pytest.raises(InputError, match="threads"):
        LlamaBackbone(file, context_tokens=64, threads=0)


def test_closing_gives_all_back_once_and_so_does_forgetting(file: Path) -> None:
    closed = LlamaBackbone(file, context_tokens=64, threads=1)
    closed.close()
    closed.close()
    with pytest.raises(ModelError, match="closed"):
        closed.complete(ASK, max_tokens=1)
    with pytest.raises(ModelError, match="closed"):
        closed.count_tokens("a")
    dropped = LlamaBackbone(file, context_tokens=64, threads=1)
    finalizer, gone = dropped._finalizer, weakref.ref(dropped)
    del dropped
    gc.collect()
    assert gone() is None
    assert not finalizer.alive


def test_text_never_becomes_a_control_token(backbone: LlamaBackbone) -> None:
    words = backbone._vocabulary
    ends = [words.name(token) for token in words.ends]
    names = [*ends, *(words.name(int(token)) for token in words.controls)]
    assert names
    control = words.ends | {int(token) for token in words.controls}
    for name in names:
        assert control.isdisjoint(token for ids in words.text(f"a {name} b") for token in ids)
        assert set(words.control(name)) <= control
    plain = backbone._segments([Turn("system", "x"), Turn("user", "y")], 1)
    hostile = backbone._segments([Turn("system", f"x{ends[0]}"), Turn("user", "y".join(names))], 1)
    assert [[t for t in segment if t in control] for segment in hostile] == [
        [t for t in segment if t in control] for segment in plain
    ]


def test_segments_together_are_the_rendered_prompt(backbone: LlamaBackbone) -> None:
    turns = [*ASK, Turn("assistant", "Ana, her wrist."), Turn("user", "When?")]
    *heads, tail = backbone._template.parts([turn.role for turn in turns])
    whole = "".join(head + turn.text for head, turn in zip(heads, turns, strict=True)) + tail
    segments = backbone._segments(turns, 1)
    assert len(segments) == 5
    assert [token for segment in segments for token in segment] == backbone._vocabulary.control(whole)


def test_what_was_read_is_kept_and_does_not_show(backbone: LlamaBackbone, bits: list[bytes]) -> None:
    """Over several prompts, in several orders: the same text from the same bits, read anew or not."""
    long = Turn("user", "Ana went to Oslo, then to Bergen, and bought a cat. " * 40)  # more than one batch
    prompts = [
        ASK,
        [SYSTEM, Turn("user", "Ben sold his house.")],
        [SYSTEM, long],
        [*ASK, Turn("assistant", "Ana, her wrist."), Turn("user", "When?")],
        [*ASK, Turn("assistant", ""), Turn("user", "When?")],
        [SYSTEM, long, Turn("assistant", "Yes."), Turn("user", "Who?")],
        [Turn("user", "Hello.")],
    ]
    assert sum(map(len, backbone._segments([long], 1))) > settings.LLAMA_BATCH_TOKENS
    cold = []
    for turns in prompts:
        forget(backbone)
        bits.clear()
        answer = backbone.complete(turns, max_tokens=3)
        assert answer.cached_tokens == 0
        cold.append((answer.text, list(bits)))
    kept = 0
    for number in (0, 1, 3, 4, 3, 2, 5, 0, 2):
        bits.clear()
        answer = backbone.complete(prompts[number], max_tokens=3)
        kept += answer.cached_tokens > 0
        assert (answer.text, bits) == cold[number]
    assert kept >= 6


def test_a_new_process_would_say_the_same(backbone: LlamaBackbone, file: Path, bits: list[bytes]) -> None:
    backbone.complete(ASK, max_tokens=1)
    bits.clear()
    warm = backbone.complete(ASK, max_tokens=4)
    seen = list(bits)
    bits.clear()
    other = LlamaBackbone(file, context_tokens=CONTEXT_TOKENS, threads=1)
    cold = other.complete(ASK, max_tokens=4)
    other.close()
    assert warm.cached_tokens > cold.cached_tokens == 0
    assert (cold.text, bits) == (warm.text, seen)


def test_the_same_prompt_is_kept_but_for_its_end(backbone: LlamaBackbone) -> None:
    segments = backbone._segments(ASK, 1)
    for _ in range(2):
        answer = backbone.complete(ASK, max_tokens=2)
    assert answer.prompt_tokens == sum(map(len, segments))
    assert answer.cached_tokens == answer.prompt_tokens - len(segments[-1])
    other = backbone.complete([Turn("system", "Another."), ASK[1]], max_tokens=1)
    assert other.cached_tokens == 0


def test_a_memory_that_cannot_be_cut_is_read_anew(
    backbone: LlamaBackbone, monkeypatch: pytest.MonkeyPatch, bits: list[bytes]
) -> None:
    backbone.complete(ASK, max_tokens=1)
    expected = list(bits)
    bits.clear()
    monkeypatch.setattr(loaded(), "llama_memory_seq_rm", lambda *args: False)
    answer = backbone.complete(ASK, max_tokens=1)
    assert (answer.cached_tokens, bits) == (0, expected)


def test_a_reading_that_was_stopped_leaves_nothing_to_rely_on(
    backbone: LlamaBackbone, monkeypatch: pytest.MonkeyPatch, bits: list[bytes]
) -> None:
    backbone.complete(ASK, max_tokens=1)
    expected = list(bits)

    def stop(*args: object) -> int:
        raise KeyboardInterrupt

    other = [Turn("user", "Hello.")]
    for broken, error in ((stop, KeyboardInterrupt), (lambda *args: -3, ModelError)):
        backbone.complete(ASK, max_tokens=1)
        with monkeypatch.context() as patch:
            patch.setattr(loaded(), "llama_decode", broken)
            with pytest.raises(error):
                backbone.complete(other, max_tokens=1)
        bits.clear()
        assert backbone.complete(ASK, max_tokens=1).cached_tokens == 0
        assert bits == expected


def test_a_segment_is_read_in_calls_of_its_own(
    backbone: LlamaBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the machine sums, what was kept and what is read anew are then the same sums."""
    calls: list[list[int]] = []
    decode = loaded().llama_decode

    def watched(context: Any, batch: Any) -> Any:
        calls.append([batch.token[place] for place in range(batch.n_tokens)])
        return decode(context, batch)

    monkeypatch.setattr(loaded(), "llama_decode", watched)
    segments = [list(segment) for segment in backbone._segments(ASK, 1)]
    forget(backbone)
    backbone.complete(ASK, max_tokens=1)
    assert calls == segments
    assert [list(segment) for segment in backbone._held] == segments[:-1]
    calls.clear()
    answered = [*ASK, Turn("assistant", ""), Turn("user", "When?")]
    answer = backbone.complete(answered, max_tokens=1)
    anew = [list(segment) for segment in backbone._segments(answered, 1)]
    assert calls == anew[2:]
    assert answer.cached_tokens == sum(map(len, anew[:2]))


def test_a_grammar_shapes_the_text(backbone: LlamaBackbone) -> None:
    answer = backbone.complete(ASK, max_tokens=150, schema=UNITS)
    assert answer.finish == "stop"
    units = json.loads(answer.text)["units"]
    assert len(units) <= 2
    for unit in units:
        assert set(unit) == {"text", "kind", "places"}
        assert len(unit["text"]) <= 40
        assert unit["kind"] in ("event", "state")
        assert len(unit["places"]) <= 2
    assert backbone.complete(ASK, max_tokens=150, schema=UNITS).text == answer.text


def test_the_likeliest_allowed_token_is_chosen(backbone: LlamaBackbone) -> None:
    """The short cuts over the vocabulary choose what looking at all of it does."""
    words = backbone._vocabulary
    rules = grammar({"enum": ["cat", "dog"]})
    rng = np.random.default_rng(5)
    for _ in range(5):
        logits = rng.normal(0, 1, words.size).astype(np.float32)
        short, full = Constraint(words, rules), Constraint(words, rules)
        try:
            expected = full._best(logits, np.arange(words.size))
            assert short.choose(logits, int(np.argmax(logits))) == expected
        finally:
            short.free()
            full.free()


def test_a_control_token_is_no_text_of_a_schema(backbone: LlamaBackbone) -> None:
    """Its name would fit into a string, and be missing from the answer."""
    words = backbone._vocabulary
    constraint = Constraint(words, grammar({"type": "string"}))
    try:
        (quote,) = words.control('"')
        logits = np.zeros(words.size, np.float32)
        logits[quote] = 1
        assert constraint.choose(logits, quote) == quote
        assert not constraint._allowed(words.controls).any()
        assert constraint._allowed(np.array(words.control("cat"))).all()
    finally:
        constraint.free()


def test_a_grammar_no_token_continues_is_an_error(backbone: LlamaBackbone) -> None:
    words = backbone._vocabulary
    constraint = Constraint(words, 'root ::= "\x01\x02\x03"')
    logits = np.zeros(words.size, np.float32)
    try:
        words.controls = np.arange(words.size)
        with pytest.raises(ModelError, match="no token"):
            constraint.choose(logits, 0)
    finally:
        constraint.free()
        del words.controls


def test_a_grammar_llama_cpp_refuses_is_an_error(backbone: LlamaBackbone) -> None:
    with pytest.raises(ModelError, match="refuses"):
        Constraint(backbone._vocabulary, "root ::= missing")


def test_a_text_is_cut_at_the_limit_and_ends_in_a_whole_character(
    backbone: LlamaBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    cats = backbone._vocabulary.control("😀" * 3)
    assert len(cats) > 3, "a character of this vocabulary has to be more than one token"
    for length in range(1, len(cats) + 1):
        script = iter(cats)
        monkeypatch.setattr(LlamaBackbone, "_choose", lambda self, constraint, script=script: next(script))
        answer = backbone.complete(ASK, max_tokens=length)
        assert answer.finish == "length"
        assert answer.completion_tokens == length
        assert "😀😀😀".startswith(answer.text)
    assert answer.text == "😀😀😀"


def test_logits_that_are_no_numbers_are_an_error(
    backbone: LlamaBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = np.ctypeslib.as_array
    for wrong in (np.nan, np.inf):

        def poisoned(pointer: Any, shape: Any, wrong: float = wrong) -> Any:
            logits = real(pointer, shape).copy()
            logits[7] = wrong
            return logits

        monkeypatch.setattr(np.ctypeslib, "as_array", poisoned)
        with pytest.raises(ModelError, match="no numbers"):
            backbone.complete(ASK, max_tokens=1)
    monkeypatch.undo()
    assert backbone.complete(ASK, max_tokens=1).cached_tokens == 0


def test_missing_logits_are_an_error(backbone: LlamaBackbone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded(), "llama_get_logits_ith", lambda *args: None)
    with pytest.raises(ModelError, match="no logits"):
        backbone.complete(ASK, max_tokens=1)


def test_no_evaluation_is_larger_than_its_buffers(
    backbone: LlamaBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []
    decode = loaded().llama_decode

    def watched(context: Any, batch: Any) -> Any:
        sizes.append((batch.n_tokens, sum(bool(batch.logits[place]) for place in range(batch.n_tokens))))
        return decode(context, batch)

    monkeypatch.setattr(loaded(), "llama_decode", watched)
    forget(backbone)
    turns = [Turn("system", "cat " * 600), Turn("user", "dog")]
    parts = backbone._segments(turns, 1)
    backbone.complete(turns, max_tokens=2)
    size = settings.LLAMA_BATCH_TOKENS
    assert [count for count, _ in sizes[:2]] == [size, len(parts[0]) - size]
    assert max(count for count, _ in sizes) <= size
    assert [outputs for _, outputs in sizes] == [0] * len(parts) + [1] * (len(sizes) - len(parts))


def test_the_context_is_filled_to_its_last_token(file: Path) -> None:
    small = LlamaBackbone(file, context_tokens=96, threads=1)
    try:
        turns = [Turn("user", "7")]
        while (used := sum(map(len, small._segments(turns, 1)))) < 92:
            turns = [Turn("user", turns[0].text + "7")]
        answer = small.complete(turns, max_tokens=96 - used)
        assert answer.prompt_tokens == used
        with pytest.raises(InputError, match="context"):
            small.complete(turns, max_tokens=97 - used)
        with pytest.raises(ModelError, match="do not fit"):
            small._decode((1,), 96, output=True)
    finally:
        small.close()


LONG = ["a" * 300_000, " " * 300_000, "7" * 300_000, "猫" * 100_000]


@pytest.mark.parametrize("text", LONG, ids=lambda text: ascii(text[0]))
def test_long_texts_are_counted_and_refused(backbone: LlamaBackbone, text: str) -> None:
    assert backbone.count_tokens(text) > 1000
    with pytest.raises(InputError, match="context"):
        backbone.complete([Turn("user", text)], max_tokens=1)


def test_counting_counts_nul_bytes_and_surrogates(backbone: LlamaBackbone) -> None:
    assert backbone.count_tokens("") == 0
    assert backbone.count_tokens("a\0b") > backbone.count_tokens("a")
    assert backbone.count_tokens("\ud800") == backbone.count_tokens("\ufffd")


def test_calls_from_several_threads_do_not_mix(backbone: LlamaBackbone) -> None:
    prompts = [[SYSTEM, Turn("user", f"Who is {name}?")] for name in ("Ana", "Ben", "Caro")]
    alone = [backbone.complete(turns, max_tokens=4).text for turns in prompts]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda turns: backbone.complete(turns, max_tokens=4).text, prompts * 2))
    assert together == alone * 2

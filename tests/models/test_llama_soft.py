"""Soft tokens and told texts in llama.cpp: on a tiny model of random weights, and on MEMDB_GGUF."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import settings as bounds
from memdb.errors import InputError, ModelError, ModelNotFound
from memdb.models import gguf_file
from memdb.models.llama import LlamaBackbone
from memdb.models.llama_library import library
from memdb.models.ports import SoftToken, Turn
from memdb.models.soft import Rows
from tests.models import tiny_llama

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
pytest.importorskip("gguf", reason="gguf is not installed")

CONTEXT_TOKENS = 768
QUESTION = "Where does Ana live now?\n"
ASK = [Turn("system", "Be brief."), Turn("user", f"{QUESTION}Ana lives in Oslo. Ben lives in Rome.")]
PLACE = (1, len(QUESTION))
CITY: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "sure": {"type": "boolean"}},
    "required": ["city", "sure"],
    "additionalProperties": False,
}
SAME = 1e-5  # largest difference of two logits; what was measured is 0


@pytest.fixture(scope="module", params=["tiny", "MEMDB_GGUF"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "tiny":
        return tiny_llama.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")
    if not (path := os.environ.get("MEMDB_GGUF")):
        pytest.skip("MEMDB_GGUF names no model file")
    return Path(path)


@pytest.fixture(scope="module")
def backbone(file: Path) -> Iterator[LlamaBackbone]:
    made = LlamaBackbone(file, context_tokens=CONTEXT_TOKENS, threads=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def rows(backbone: LlamaBackbone) -> np.ndarray:
    """float32 [2, width]: two soft tokens that are no token's."""
    spread = backbone.token_rows(range(64)).std()
    made = np.random.default_rng(5).normal(0, spread, (2, backbone.embedding_width))
    return made.astype(np.float32)


@pytest.fixture
def bits(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The logits of every token chosen from now on."""
    seen: list[bytes] = []
    choose = LlamaBackbone._choose

    def watched(self: LlamaBackbone, constraint: Any) -> int:
        seen.append(self._logits().tobytes())
        return choose(self, constraint)

    monkeypatch.setattr(LlamaBackbone, "_choose", watched)
    return seen


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[list[int] | bytes]:
    """What llama.cpp is given to evaluate from now on, call by call: ids, or the bytes of rows."""
    calls: list[list[int] | bytes] = []
    native = library()
    decode = native.llama_decode

    def watched(context: Any, batch: Any) -> Any:
        assert bool(batch.token) != bool(batch.embd), "of both, llama.cpp ignores the rows"
        if batch.token:
            calls.append([batch.token[place] for place in range(batch.n_tokens)])
        else:
            width = native.llama_model_n_embd(native.llama_get_model(context))
            calls.append(ctypes.string_at(batch.embd, 4 * width * batch.n_tokens))
        return decode(context, batch)

    monkeypatch.setattr(native, "llama_decode", watched)
    return calls


def fresh(backbone: LlamaBackbone) -> LlamaBackbone:
    return LlamaBackbone(backbone._path, context_tokens=CONTEXT_TOKENS, threads=1)


# --- A row reads like the token it is the row of


def test_a_tokens_own_row_reads_like_the_token(backbone: LlamaBackbone) -> None:
    before, after = (tuple(ids) for ids in backbone.prompt_ids(ASK, PLACE))
    for token in (5, 77, backbone._vocabulary.size - 5):
        (row,) = backbone.token_rows([token])
        soft = backbone.next_logits(ASK, SoftToken(row, *PLACE))
        expected = backbone.logits_after([*backbone._halves(ASK, 1, PLACE)[0], [token], after])
        assert len(before) + len(after) > 10
        assert np.abs(soft - expected).max() <= SAME
        assert soft.std() > 0.1, "logits that are all the same would show nothing"


def test_a_whole_prompt_of_rows_reads_like_its_tokens(backbone: LlamaBackbone) -> None:
    ids, none = backbone.prompt_ids(ASK)
    assert none == []
    by_id = backbone.logits_after([ids])
    by_row = backbone.logits_after([backbone.token_rows(ids)])
    assert np.abs(by_id - by_row).max() <= SAME
    other = backbone.token_rows([*ids[:3], (ids[3] + 1) % 256, *ids[4:]])
    assert np.abs(by_id - backbone.logits_after([other])).max() > 100 * SAME


def test_a_row_that_is_no_tokens_changes_what_follows(backbone: LlamaBackbone, rows: np.ndarray) -> None:
    one, two = (backbone.next_logits(ASK, SoftToken(row, *PLACE)) for row in rows)
    assert np.abs(one - two).max() > 100 * SAME
    assert np.abs(one - backbone.next_logits(ASK)).max() > 100 * SAME


def test_more_rows_than_a_batch_holds_are_read_in_several(
    backbone: LlamaBackbone, read: list[list[int] | bytes]
) -> None:
    ids = [number % 250 for number in range(bounds.LLAMA_BATCH_TOKENS + 70)]
    by_id = backbone.logits_after([ids])
    assert [len(call) for call in read] == [bounds.LLAMA_BATCH_TOKENS, 70]
    table = backbone.token_rows(ids)
    assert np.abs(by_id - backbone.logits_after([table])).max() <= SAME
    assert b"".join(call for call in read if isinstance(call, bytes)) == table.tobytes()


@pytest.mark.parametrize("table", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_1"])
def test_however_the_table_is_packed(tmp_path: Path, table: str) -> None:
    made = LlamaBackbone(tiny_llama.write(tmp_path / "a.gguf", table=table), threads=1)
    try:
        ids, _ = made.prompt_ids(ASK)
        assert np.abs(made.logits_after([ids]) - made.logits_after([made.token_rows(ids)])).max() <= SAME
    finally:
        made.close()


@pytest.mark.parametrize(
    ("architecture", "scale"), [("llama", 1.0), ("gemma", 1.0), ("gemma3", tiny_llama.WIDTH**0.5)]
)
def test_a_model_that_scales_its_tokens_scales_its_soft_tokens(
    tmp_path: Path, architecture: str, scale: float
) -> None:
    """llama.cpp multiplies the tokens of Gemma 3 by the root of the width, and rows it is given by 1."""
    made = LlamaBackbone(tiny_llama.write(tmp_path / "a.gguf", architecture=architecture), threads=1)
    try:
        (row,) = made.token_rows([70])
        soft = made.next_logits(ASK, SoftToken(row, *PLACE))
        before, after = made._halves(ASK, 1, PLACE)
        assert np.abs(soft - made.logits_after([*before, [70], *after])).max() <= SAME
        assert made._scale == pytest.approx(scale)
        unscaled = made.logits_after([*before, row[None], *after])
        assert (np.abs(soft - unscaled).max() <= SAME) == (scale == 1)
    finally:
        made.close()


def test_torch_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers' Llama of the same float32 weights, given the same rows. Keys and values are float32 here
    too: in float16, as llama.cpp keeps them otherwise, these weights' logits differ by 0.004.
    """
    defaults = library().llama_context_default_params

    def exact() -> Any:
        options = defaults()
        options.type_k = options.type_v = library().GGML_TYPE_F32
        return options

    monkeypatch.setattr(library(), "llama_context_default_params", exact)
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    model = tiny_llama.in_torch()
    made = LlamaBackbone(tiny_llama.write(tmp_path / "a.gguf"), threads=1)
    try:
        before, after = made.prompt_ids(ASK, PLACE)
        table = model.get_input_embeddings().weight.detach()
        (row,) = np.random.default_rng(2).normal(0, 0.3, (1, tiny_llama.WIDTH)).astype(np.float32)
        given_rows = torch.cat([table[before], torch.from_numpy(row)[None], table[after]])
        with torch.no_grad():
            expected = model(inputs_embeds=given_rows[None]).logits[0, -1].numpy()
        soft = made.next_logits(ASK, SoftToken(row, *PLACE))
        assert np.abs(soft - expected).max() <= 1e-4
    finally:
        made.close()


# --- Models that do not read rows so


@pytest.fixture
def untried(tmp_path: Path) -> Iterator[LlamaBackbone]:
    made = LlamaBackbone(tiny_llama.write(tmp_path / "a.gguf"), threads=1)
    yield made
    made.close()


def zeros(made: LlamaBackbone) -> SoftToken:
    return SoftToken(np.zeros(made.embedding_width, np.float32), *PLACE)


def test_a_model_that_reads_rows_otherwise_takes_no_soft_token(
    untried: LlamaBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = gguf_file.token_rows
    with monkeypatch.context() as patch:
        patch.setattr(gguf_file, "token_rows", lambda path, ids, width: table(path, ids, width)[:, ::-1])
        for _ in range(2):
            with pytest.raises(ModelError, match="does not read") as caught:
                untried.complete(ASK, max_tokens=1, soft=zeros(untried))
            assert 'graph_mode="text"' in caught.value.hint
    assert untried.complete(ASK, max_tokens=1).completion_tokens <= 1
    assert untried.complete(ASK, max_tokens=1, soft=zeros(untried)).completion_tokens <= 1


@pytest.mark.parametrize(
    ("function", "answer"),
    [("llama_model_rope_type", 8), ("llama_model_rope_type", 40), ("llama_model_n_embd_inp", 64)],
)
def test_rows_llama_cpp_would_read_beyond_are_never_given(
    untried: LlamaBackbone, monkeypatch: pytest.MonkeyPatch, function: str, answer: int
) -> None:
    """Several positions a row, or rows of several layers: its batch has no room for them."""
    monkeypatch.setattr(library(), function, lambda model: answer)
    monkeypatch.setattr(library(), "llama_decode", lambda *args: pytest.fail("it was given"))
    with pytest.raises(ModelError, match="does not read"):
        untried.complete(ASK, max_tokens=1, soft=zeros(untried))


def test_a_quantised_table_takes_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = LlamaBackbone(tiny_llama.write(tmp_path / "a.gguf", table="Q4_1"), threads=1)
    monkeypatch.setitem(sys.modules, "gguf", None)
    try:
        with pytest.raises(ModelNotFound, match="gguf") as caught:
            made.complete(ASK, max_tokens=1, soft=zeros(made))
        assert "memdb-engine[llm]" in caught.value.hint
        assert made.complete(ASK, max_tokens=1).prompt_tokens > 1
    finally:
        made.close()


def test_rows_are_checked_before_llama_cpp_sees_them(
    backbone: LlamaBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library(), "llama_decode", lambda *args: pytest.fail("it was given"))
    width, largest = backbone.embedding_width, backbone._vocabulary.size
    good = np.zeros((2, width), np.float32)
    bad: list[Any] = [
        [],
        [[]],
        [[1], np.zeros((0, width), np.float32)],
        [[-1]],
        [[largest]],
        [good[:, :-1].copy()],
        [good[0]],
        [good.astype(np.float64)],
        [good.astype(np.float16)],
        [np.where(good == 0, np.nan, good).astype(np.float32)],
        [[1] * (CONTEXT_TOKENS + 1)],
        [np.zeros((CONTEXT_TOKENS + 1, width), np.float32)],
    ]
    for parts in bad:
        with pytest.raises(InputError):
            backbone.logits_after(parts)
    with pytest.raises(InputError):
        backbone.token_rows([largest])


def test_a_row_that_overflows_when_it_is_scaled_is_refused() -> None:
    row = np.full((1, 4), 3e38, np.float32)
    assert Rows.of(row).data == row.tobytes()
    with pytest.raises(InputError, match="finite"):
        Rows.of(row, 2.0)


def test_a_row_need_not_lie_in_one_piece(backbone: LlamaBackbone, rows: np.ndarray) -> None:
    strided = np.repeat(rows[0], 2)[::2]
    assert not strided.flags.c_contiguous
    same = backbone.next_logits(ASK, SoftToken(strided, *PLACE))
    assert np.array_equal(same, backbone.next_logits(ASK, SoftToken(rows[0], *PLACE)))
    columns = np.asfortranarray(backbone.token_rows([5, 6, 7]))
    expected = backbone.logits_after([[5, 6, 7]])
    assert np.abs(backbone.logits_after([columns]) - expected).max() <= SAME


# --- What was read is kept, and does not show


def test_the_beginning_stays_read_when_another_soft_token_comes(
    backbone: LlamaBackbone, rows: np.ndarray, read: list[list[int] | bytes]
) -> None:
    before, after = backbone._halves(ASK, 1, PLACE)
    backbone.complete(ASK, max_tokens=1, soft=SoftToken(rows[0], *PLACE))
    read.clear()
    other = backbone.complete(ASK, max_tokens=1, soft=SoftToken(rows[1], *PLACE))
    assert other.cached_tokens == sum(map(len, before)) > 0
    scaled = rows[1] * np.float32(backbone._soft_scale())
    assert read == [scaled.tobytes(), *map(list, after)]
    again = backbone.complete(ASK, max_tokens=1, soft=SoftToken(rows[1].copy(), *PLACE))
    assert again.cached_tokens == again.prompt_tokens - len(after[-1])


def test_answers_are_those_of_a_fresh_context(
    backbone: LlamaBackbone, rows: np.ndarray, bits: list[bytes]
) -> None:
    """Two soft tokens, none, and a prompt of another shape, in several orders: the very bits."""
    prompts: list[tuple[list[Turn], SoftToken | None]] = [
        (ASK, SoftToken(rows[0], *PLACE)),
        (ASK, SoftToken(rows[1], *PLACE)),
        (ASK, None),
        (ASK, SoftToken(rows[0], 1, 3)),
        ([*ASK, Turn("assistant", "Oslo."), Turn("user", "And Ben?")], SoftToken(rows[0], *PLACE)),
    ]
    cold = []
    for turns, soft in prompts:
        other = fresh(backbone)
        other._scale = backbone._scale
        bits.clear()
        text = other.complete(turns, max_tokens=3, soft=soft).text
        cold.append((text, list(bits)))
        other.close()
    assert len({tuple(seen) for _, seen in cold}) == len(prompts)
    kept = 0
    for number in (0, 1, 0, 1, 2, 0, 3, 0, 4, 1, 4, 2, 1):
        turns, soft = prompts[number]
        bits.clear()
        answer = backbone.complete(turns, max_tokens=3, soft=soft)
        kept += answer.cached_tokens > 0
        assert (answer.text, bits) == cold[number]
    assert kept >= 10


def test_a_reading_that_was_stopped_at_the_soft_token_leaves_nothing(
    backbone: LlamaBackbone, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft = SoftToken(rows[0], *PLACE)
    expected = backbone.next_logits(ASK, soft)
    decode = library().llama_decode
    with monkeypatch.context() as patch:
        patch.setattr(library(), "llama_decode", lambda c, batch: -3 if batch.embd else decode(c, batch))
        with pytest.raises(ModelError, match="could not read 1 tokens"):
            backbone.next_logits(ASK, SoftToken(rows[1], *PLACE))
    assert backbone.complete(ASK, max_tokens=1, soft=soft).cached_tokens == 0
    assert np.array_equal(backbone.next_logits(ASK, soft), expected)


def test_a_soft_token_takes_its_place_in_the_context(file: Path) -> None:
    small = LlamaBackbone(file, context_tokens=128, threads=1)
    try:
        turns = [Turn("user", "7")]
        while (used := len(small.prompt_ids(turns)[0])) < 124:
            turns = [Turn("user", turns[0].text + " 7")]
        soft = SoftToken(np.zeros(small.embedding_width, np.float32), 0, 0)
        answer = small.complete(turns, max_tokens=128 - used - 1, soft=soft)
        assert answer.prompt_tokens == used + 1
        with pytest.raises(InputError, match="context"):
            small.complete(turns, max_tokens=128 - used, soft=soft)
    finally:
        small.close()


# --- The ids, for training


CONTROL = st.sampled_from(["<|im_end|>", "<|im_start|>user\n", "<|endoftext|>"])
TEXT = st.lists(st.one_of(st.text(max_size=12), CONTROL), max_size=4).map("".join)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(system=TEXT, user=TEXT, data=st.data())
def test_the_ids_are_those_that_are_read(
    backbone: LlamaBackbone, rows: np.ndarray, system: str, user: str, data: st.DataObject
) -> None:
    turns = [Turn("system", system), Turn("user", user)]
    turn = data.draw(st.integers(0, 1))
    place = (turn, data.draw(st.integers(0, len(turns[turn].text))))
    backbone._soft_scale()
    with pytest.MonkeyPatch.context() as patch:
        native, ids, softs = library(), list[list[int]]([[]]), list[int]()
        decode = native.llama_decode

        def watched(context: Any, batch: Any) -> Any:
            if batch.embd:
                softs.append(batch.n_tokens)
                ids.append([])
            else:
                ids[-1] += [batch.token[number] for number in range(batch.n_tokens)]
            return decode(context, batch)

        patch.setattr(native, "llama_decode", watched)
        backbone._held = []
        backbone.complete(turns, max_tokens=1, soft=SoftToken(rows[0], *place))
    assert (softs, ids) == ([1], [*backbone.prompt_ids(turns, place)])
    control = backbone._vocabulary.ends | set(backbone._vocabulary.controls.tolist())
    plain, _ = backbone.prompt_ids([Turn("system", ""), Turn("user", "")])
    assert [t for half in ids for t in half if t in control] == [t for t in plain if t in control]


def test_ids_of_what_cannot_be_asked_are_refused(backbone: LlamaBackbone) -> None:
    with pytest.raises(InputError, match="user"):
        backbone.prompt_ids([Turn("system", "a")])
    with pytest.raises(InputError, match="soft token"):
        backbone.prompt_ids(ASK, (2, 0))
    with pytest.raises(InputError, match="context"):
        backbone.prompt_ids([Turn("user", "7 " * CONTEXT_TOKENS)])


def test_a_closed_model_reads_nothing(backbone: LlamaBackbone) -> None:
    closed = fresh(backbone)
    closed.complete(ASK, max_tokens=1, soft=zeros(closed))
    closed.close()
    closed.close()
    for call in (
        lambda: closed.prompt_ids(ASK),
        lambda: closed.next_logits(ASK),
        lambda: closed.logits_after([[1]]),
        lambda: closed.complete(ASK, max_tokens=1, soft=zeros(closed)),
    ):
        with pytest.raises(ModelError, match="closed"):
            call()


# --- Told as it is written


def test_a_schema_and_a_soft_token_go_together(backbone: LlamaBackbone, rows: np.ndarray) -> None:
    for row in rows:
        told: list[str] = []
        soft = SoftToken(row, *PLACE)
        answer = backbone.complete(ASK, max_tokens=60, schema=CITY, soft=soft, on_text=told.append)
        assert set(json.loads(answer.text)) == {"city", "sure"}
        assert "".join(told) == answer.text


def test_a_piece_is_told_before_the_next_is_chosen(
    backbone: LlamaBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a character only when its last byte came."""
    tokens = backbone._vocabulary.control("a猫b")
    script, seen = iter(tokens), list[str]()

    def choose(self: LlamaBackbone, constraint: Any) -> int:
        seen.append("?")
        return next(script)

    monkeypatch.setattr(LlamaBackbone, "_choose", choose)
    backbone.complete(ASK, max_tokens=len(tokens), on_text=seen.append)
    assert "".join(seen).replace("?", "") == "a猫b"
    assert seen[:2] == ["?", "a"]
    assert seen[-2:] == ["?", "b"]
    assert len(tokens) > 3, "a character of this vocabulary has to be more than one token"


def test_what_was_stopped_while_told_does_not_show(
    backbone: LlamaBackbone, rows: np.ndarray, bits: list[bytes]
) -> None:
    soft = SoftToken(rows[0], *PLACE)
    expected = backbone.complete(ASK, max_tokens=6, schema=CITY, soft=soft).text
    seen = list(bits)

    def stop(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backbone.complete(ASK, max_tokens=6, schema=CITY, soft=soft, on_text=stop)
    bits.clear()
    answer = backbone.complete(ASK, max_tokens=6, schema=CITY, soft=soft)
    assert (answer.text, bits) == (expected, seen)
    assert answer.cached_tokens > 0


def test_who_is_told_cannot_use_the_model_meanwhile(backbone: LlamaBackbone) -> None:
    refused: list[str] = []

    def busy(text: str) -> None:
        assert backbone.count_tokens(text) >= 1
        calls = (
            lambda: backbone.complete(ASK, max_tokens=1),
            lambda: backbone.next_logits(ASK),
            lambda: backbone.logits_after([[1]]),
            backbone.close,
        )
        for call in calls:
            with pytest.raises(InputError, match="on_text") as caught:
                call()
            refused.append(str(caught.value))

    answer = backbone.complete(ASK, max_tokens=3, schema=CITY, on_text=busy)
    assert len(refused) >= 4
    assert backbone.complete(ASK, max_tokens=3, schema=CITY).text == answer.text

"""What the cost of the graph token is made of: a clock that only models move."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.speed import __main__ as command
from benchmarks.speed import graph_token
from memdb.errors import InputError
from memdb.models.fakes import HashEncoder, HashGraphEncoder, ScriptedBackbone
from memdb.models.ports import Completion, EmbeddingBackbone, Kind, OnText, SoftToken, Turn

WIDTH = 16


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class SlowEncoder(HashEncoder):
    def __init__(self, clock: Clock) -> None:
        super().__init__(8)
        self.clock = clock

    def encode(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        self.clock.now += 0.01 * len(texts)
        return super().encode(texts, kind=kind)


class SlowGraphEncoder(HashGraphEncoder):
    def __init__(self, clock: Clock) -> None:
        super().__init__(8, WIDTH)
        self.clock = clock

    def row(self, *graph: Any) -> NDArray[np.float32]:
        self.clock.now += 0.2
        return super().row(*graph)


class SlowBackbone(ScriptedBackbone):
    """Four seconds for a prompt, half a second more for a soft token; the very first call takes a minute."""

    sha256 = "b" * 64
    embedding_width = WIDTH

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.softs: list[SoftToken | None] = []

    def complete(
        self,
        turns: Sequence[Turn],
        *,
        max_tokens: int,
        schema: Mapping[str, object] | None = None,
        on_text: OnText | None = None,
        soft: SoftToken | None = None,
    ) -> Completion:
        self.clock.now += (4.0 if self.softs else 60.0) + (0.5 if soft else 0)
        self.softs.append(soft)
        return super().complete(turns, max_tokens=max_tokens, schema=schema)


def test_the_working_memory_is_as_large_as_the_paper_s() -> None:
    memory, graph = graph_token.working_memory()
    assert (len(graph.nodes), len(graph.sources)) == (20, 10)
    assert len(set(graph.relations)) == 10
    assert 400 < ScriptedBackbone().count_tokens(memory) < 900


def test_a_ratio_is_all_that_the_token_costs_over_the_prompt_alone() -> None:
    clock = Clock()
    backbone = SlowBackbone(clock)
    assert isinstance(backbone, EmbeddingBackbone)
    result = graph_token.measure(backbone, SlowEncoder(clock), SlowGraphEncoder(clock), 4, clock)
    assert result.rounds == 4
    assert (result.prompt_seconds, result.label_seconds) == (4.0, 0.3)
    assert (result.encode_seconds, result.read_seconds) == (0.2, 0.5)
    assert result.ratio == pytest.approx((4 + 0.5 + 0.2 + 0.3) / 4)
    assert result.ratio_of_stored_vectors == pytest.approx((4 + 0.5 + 0.2) / 4)
    assert result.prompt_tokens == backbone.count_tokens(
        "".join(f"{turn.text} " for turn in backbone.calls[0].turns)
    )


def test_no_prompt_was_read_before_and_the_token_stands_before_the_memory() -> None:
    clock = Clock()
    backbone = SlowBackbone(clock)
    graph_token.measure(backbone, SlowEncoder(clock), SlowGraphEncoder(clock), 3, clock)
    starts = [call.turns[0].text.split()[0] for call in backbone.calls]
    assert len(set(starts)) == len(starts) == 8
    first = [soft is not None for soft in backbone.softs[::2]]
    assert first == [False, True, False, True]
    for call, soft in zip(backbone.calls, backbone.softs, strict=True):
        if soft is not None:
            assert call.turns[soft.turn].text[soft.at :] == graph_token.working_memory()[0]
            assert soft.row.shape == (WIDTH,)


def test_a_backbone_of_tokens_alone_is_refused() -> None:
    with pytest.raises(InputError, match="scripted reads no rows"):
        graph_token.reading_rows(ScriptedBackbone())


def test_random_weights_make_a_graph_encoder(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    encoder = graph_token.untrained(8, WIDTH, tmp_path)
    nodes = HashEncoder(8).encode(["a", "b"])
    assert encoder.row(nodes, np.array([[0], [1]]), nodes[:1]).shape == (WIDTH,)


def test_the_command_prints_one_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    clock = Clock()
    backbone = SlowBackbone(clock)
    monkeypatch.setattr(command, "load_backbone", lambda spec, threads: backbone)
    monkeypatch.setattr(command, "load_encoder", lambda threads: SlowEncoder(clock))
    monkeypatch.setattr("sys.argv", ["speed", "graph_token", "--gguf", "some.gguf", "--rounds", "2"])
    command.main()
    printed = json.loads(capsys.readouterr().out)
    assert (printed["rounds"], printed["nodes"], printed["target"]) == (2, 20, 1.05)
    assert backbone._closed


def test_the_command_needs_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["speed", "graph_token"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2

"""A distiller out of a folder: the prompt that its card names, and who closes what."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import memdb
from memdb.activate.working_memory import CLOSING
from memdb.errors import CannotOpen, InputError, ModelDamaged, ModelNotFound
from memdb.generate.distill import ModelDistiller
from memdb.generate.distill_prompt import STYLES, Style, distill_turns, message_tokens, room
from memdb.generate.distiller import OwnDistiller, as_distiller, load_distiller
from memdb.generate.prompts import prompt
from memdb.models import registry
from memdb.models.card import sha256_of
from memdb.models.fakes import HashEncoder, ScriptedBackbone
from memdb.models.ports import Turn
from memdb.records import History, Message
from tests.generate.histories import CANOE, TALK, WHERE, histories, history, segment

NOTHING = '{"useful_msg": [], "distilled_info": []}'
SECOND = (
    '{"useful_msg": [{"msg_id": "m2"}], "distilled_info": [{"msg_id": "m2", "info": "Ana has a canoe."}]}'
)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedBackbone]:
    """Backbones that are loaded instead of what a file holds."""
    made: list[ScriptedBackbone] = []

    def load(spec: str | Path, **_: object) -> ScriptedBackbone:
        if not Path(spec).is_file():
            raise ModelNotFound(f"there is no model file {spec}")
        made.append(ScriptedBackbone(lambda *_, **__: SECOND, name=str(spec)))
        return made[-1]

    monkeypatch.setattr(registry, "load_backbone", load)
    return made


def write(folder: Path, **changed: Any) -> Path:
    """The folder of a distiller."""
    folder.mkdir()
    (folder / "model.gguf").write_bytes(b"GGUF")
    card = {
        "kind": "distiller",
        "name": "small",
        "base": "SmolLM2-135M-Instruct",
        "base_sha256": "0" * 64,
        "prompt": "distill_brief",
        "licence": "Apache-2.0",
        "files": {"model.gguf": sha256_of(folder / "model.gguf")},
        "made": {"seed": 0, "data": "distill_world"},
    }
    (folder / "card.json").write_text(json.dumps(card | changed))
    return folder


def closed(backbone: ScriptedBackbone) -> bool:
    try:
        backbone.complete([Turn("user", "x")], max_tokens=8)
    except memdb.ModelError:
        return True
    return False


# --- The brief prompt


def test_a_brief_prompt_has_a_line_for_each_message_and_a_blank_one_between_segments() -> None:
    canoe = segment(
        Message("Ana", "I sold\nit.", "2026-01-20", image_caption="a canoe", location="Riga"),
        Message("Ben", "Good.", None),
    )
    asked = distill_turns(history("Who sold it?", canoe, TALK), "2026-02-01", "distill_brief")
    assert asked.turns[1].text.splitlines() == [
        "<memory>",
        "m1 Ana, 2026-01-20: I sold it. [image: a canoe] [location: Riga] [m1]",
        "m2 Ben: Good. [m2]",
        "",
        "m3 Ben, 2026-01-20T10:00: My sister bakes bread. [m3]",
        "m4 Ana, 2026-01-20T10:00: Nice. [m4]",
        "</memory>",
        "Question, asked at 2026-02-01: Who sold it?",
        'Shape: {"useful_msg": [{"msg_id": "…"}], "distilled_info": [{"msg_id": "…", "info": "…"}]}',
    ]


@given(histories())
def test_nothing_that_was_said_ends_the_quotation_or_makes_a_message(told: History) -> None:
    asked = distill_turns(told, None, "distill_brief")
    lines = asked.turns[1].text.split("\n")
    assert [line for line in lines if line == CLOSING] == [CLOSING]
    assert [line.split(" ")[0] for line in lines if re.match(r"m\d+ ", line)] == list(asked.messages)
    assert "<memory" not in asked.turns[1].text.split("<memory>", 1)[1].replace("</memory>", "", 1)
    assert asked.messages == distill_turns(told, None).messages, "ids are the same in either style"


def test_its_system_part_is_short() -> None:
    words = re.findall(r"\w+|[^\w\s]", prompt("distill_brief").system)
    assert len(words) < 90, "about a token each"


@pytest.mark.parametrize("style", STYLES)
def test_what_fits_the_room_fits_the_context(style: Style) -> None:
    backbone = ScriptedBackbone(lambda *_, **__: NOTHING, context_tokens=2048)
    distiller = ModelDistiller(backbone, style)
    left = distiller.room(WHERE, None)
    assert left == room(backbone, WHERE, None, style)
    sizes = [distiller.size(one) for one in CANOE.utterances]
    assert sizes == [message_tokens(one, backbone.count_tokens, style) for one in CANOE.utterances]
    fitting = left // sum(sizes)
    assert fitting > 0
    distiller.distil(history(WHERE, *[CANOE] * fitting), None)  # raises where it does not fit
    assert backbone.calls[0].turns[0].text == prompt(style).system


def test_the_brief_prompt_leaves_more_room() -> None:
    backbone = ScriptedBackbone(lambda *_, **__: NOTHING, context_tokens=2048)
    assert room(backbone, WHERE, None, "distill_brief") > room(backbone, WHERE)
    for one in CANOE.utterances:
        count = backbone.count_tokens
        assert message_tokens(one, count, "distill_brief") < message_tokens(one, count)


# --- Folders and files


def test_a_folder_is_asked_by_the_prompt_of_its_card(tmp_path: Path, loaded: list[ScriptedBackbone]) -> None:
    distiller = load_distiller(write(tmp_path / "small"))
    found = distiller.distil(history(WHERE, CANOE), None)
    assert [one.info for one in found.evidence] == ["Ana has a canoe."]
    assert loaded[0].name.endswith("model.gguf")
    assert loaded[0].calls[0].turns[0].text == prompt("distill_brief").system


def test_a_bare_file_is_asked_by_the_full_prompt(tmp_path: Path, loaded: list[ScriptedBackbone]) -> None:
    (tmp_path / "bare.gguf").write_bytes(b"GGUF")
    load_distiller(tmp_path / "bare.gguf").distil(history(WHERE, CANOE), None)
    assert loaded[0].calls[0].turns[0].text == prompt("distill").system


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"prompt": "distill_later"}, ModelDamaged, "was trained on the prompt 'distill_later'"),
        ({"prompt": "../answer"}, ModelDamaged, "was trained on the prompt"),
        ({"base_sha256": "0"}, ModelDamaged, "base_sha256 is 64 hex digits"),
        ({"files": {"model.gguf": "1" * 64}}, ModelDamaged, "is not the file its card names"),
        ({"files": {}}, ModelDamaged, r"no digest of model\.gguf"),
    ],
)
def test_a_folder_that_cannot_be_used_says_why(
    tmp_path: Path, loaded: list[ScriptedBackbone], changed: dict[str, Any], error: type[Exception], told: str
) -> None:
    folder = write(tmp_path / "small", **changed)
    with pytest.raises(error, match=told):
        load_distiller(folder)
    assert loaded == []


def test_what_is_no_distiller_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="memdb-encoder-v1 is an encoder, not a distiller"):
        load_distiller(registry.WEIGHTS / "memdb-encoder-v1")
    with pytest.raises(ModelNotFound, match="no distiller 'nowhere'") as raised:
        load_distiller("nowhere")
    assert raised.value.hint == "give a folder, hub:org/name or the path of a .gguf file"
    with pytest.raises(InputError, match="small is a distiller, not an encoder"):
        registry.load_encoder(write(tmp_path / "small"))


# --- Who closes it


def test_a_distiller_that_was_named_is_closed_with_the_memory(
    tmp_path: Path, loaded: list[ScriptedBackbone]
) -> None:
    folder = write(tmp_path / "small")
    with memdb.open(tmp_path / "a.memdb", encoder=HashEncoder(), distiller=folder) as memory:
        memory.add([Message("Ben", "Hello.", "2026-01-20"), Message("Ana", "I keep a canoe.", "2026-01-20")])
        answer = memory.ask("Where does Ana keep her canoe?", method="defermem")
        assert [one.text for one in answer.evidence] == ["Ana has a canoe."]
        assert not closed(loaded[0])
    assert closed(loaded[0])
    memory.close()


def test_one_that_was_given_stays_open(tmp_path: Path, loaded: list[ScriptedBackbone]) -> None:
    own = load_distiller(write(tmp_path / "small"))
    with memdb.open(tmp_path / "a.memdb", encoder=HashEncoder(), distiller=own):
        pass
    assert not closed(loaded[0])
    own.close()
    assert closed(loaded[0])


def test_a_backbone_that_was_given_is_asked_by_the_full_prompt_and_stays_open(tmp_path: Path) -> None:
    backbone = ScriptedBackbone(lambda *_, **__: SECOND)
    made = as_distiller(backbone)
    assert isinstance(made, ModelDistiller)
    assert (made.style, isinstance(made, OwnDistiller)) == ("distill", False)
    with memdb.open(tmp_path / "a.memdb", encoder=HashEncoder(), distiller=backbone):
        pass
    assert not closed(backbone)


def test_one_that_was_loaded_for_a_file_that_cannot_be_opened_is_closed(
    tmp_path: Path, loaded: list[ScriptedBackbone]
) -> None:
    folder = write(tmp_path / "small")
    with pytest.raises(CannotOpen):
        memdb.open(tmp_path / "none.memdb", create=False, encoder=HashEncoder(), distiller=folder)
    assert closed(loaded[0])


@pytest.mark.skipif("MEMDB_GGUF" not in os.environ, reason="MEMDB_GGUF names no model")
def test_a_real_model_in_a_folder_distils(tmp_path: Path) -> None:
    model = Path(os.environ["MEMDB_GGUF"])
    folder = write(tmp_path / "real", files={"model.gguf": sha256_of(model)})
    (folder / "model.gguf").unlink()
    (folder / "model.gguf").symlink_to(model)
    distiller = load_distiller(folder, threads=2, context_tokens=1024)
    found = distiller.distil(history(WHERE, CANOE), None)
    assert found.valid, "the schema holds the model"
    distiller.close()

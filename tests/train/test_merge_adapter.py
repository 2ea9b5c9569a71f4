"""LoRA weights merged into a GGUF file, against PEFT and llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memdb.errors import ModelDamaged, ModelError, ModelNotFound
from memdb.generate.distiller import load_distiller
from memdb.models.card import DistillerCard, read_card_of, sha256_of
from memdb.models.ports import Turn
from memdb.train import backbone, merge_adapter
from tests.models import tiny_llama

torch = pytest.importorskip("torch", reason="the train extra is not installed")
peft = pytest.importorskip("peft", reason="the train extra is not installed")
gguf = pytest.importorskip("gguf", reason="the train extra is not installed")

# peft asks transformers by a name that it is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

TURNS = [Turn("system", "You answer."), Turn("user", "an inn in the hen house")]
RANK, ALPHA = 4, 16


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama.write(tmp_path_factory.mktemp("model") / "tiny.gguf")


def trained(file: Path, folder: Path, **more: Any) -> Any:
    """A model with LoRA weights that change it much, and the folder that PEFT writes of these."""
    config = peft.LoraConfig(
        r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM", **more
    )
    model = peft.get_peft_model(backbone.frozen(file), config)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, one in model.named_parameters():
            if "lora_" in name:
                one.normal_(0, 0.15)
    model.save_pretrained(folder)
    return model.eval()


@pytest.fixture(scope="module")
def adapter(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("adapter")
    return folder, trained(tiny, folder)


def greedy(model: Any, ids: Sequence[int], count: int) -> list[int]:
    """The likeliest token each time."""
    told = list(ids)
    with torch.no_grad():
        for _ in range(count):
            told.append(int(model(torch.tensor([told])).logits[0, -1].argmax()))
    return told[len(ids) :]


# --- The change of each matrix


def test_a_change_is_the_scaled_product(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    stem = "base_model.model.model.layers.0.mlp.down_proj"
    a, b = np.array([[1, 2, 3]], np.float32), np.array([[10], [20]], np.float32)
    save_file(
        {f"{stem}.lora_A.weight": a, f"{stem}.lora_B.weight": b}, tmp_path / "adapter_model.safetensors"
    )
    config = {"peft_type": "LORA", "r": 1, "lora_alpha": 2, "bias": "none"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    (name, change), *rest = merge_adapter.changes_of(tmp_path).items()
    assert (name, rest) == ("model.layers.0.mlp.down_proj", [])
    assert change.tolist() == [[20, 40, 60], [40, 80, 120]]


def test_the_scale_of_rslora_is_by_the_root_of_the_rank(tmp_path: Path, tiny: Path) -> None:
    model = trained(tiny, tmp_path, use_rslora=True)
    changes = merge_adapter.changes_of(tmp_path)
    part = model.base_model.model.model.layers[0].self_attn.q_proj
    wanted = part.get_delta_weight("default").detach().numpy()
    np.testing.assert_allclose(changes["model.layers.0.self_attn.q_proj"], wanted, rtol=1e-5, atol=1e-6)


def test_every_matrix_of_a_layer_has_one(adapter: tuple[Path, Any]) -> None:
    changes = merge_adapter.changes_of(adapter[0])
    linear = {name for name in backbone.LAYER_TENSORS.values() if "norm" not in name}
    wanted = {f"model.layers.{layer}.{name}" for layer in range(tiny_llama.LAYERS) for name in linear}
    assert changes.keys() == wanted


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"use_dora": True}, ModelError),
        ({"bias": "all"}, ModelError),
        ({"peft_type": "IA3"}, ModelError),
        ({"modules_to_save": ["lm_head"]}, ModelError),
        ({"rank_pattern": {"q_proj": 8}}, ModelError),
        ({"r": 0}, ModelDamaged),
        ({"r": "many"}, ModelDamaged),
    ],
)
def test_what_is_no_plain_adapter_is_refused(
    tmp_path: Path, adapter: tuple[Path, Any], changed: dict[str, Any], error: type[Exception]
) -> None:
    config = json.loads((adapter[0] / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps(config | changed))
    (tmp_path / "adapter_model.safetensors").write_bytes(
        (adapter[0] / "adapter_model.safetensors").read_bytes()
    )
    with pytest.raises(error):
        merge_adapter.changes_of(tmp_path)


def test_files_that_are_missing_or_damaged_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    with pytest.raises(ModelNotFound, match=r"has no adapter_config\.json"):
        merge_adapter.changes_of(tmp_path)
    (tmp_path / "adapter_config.json").write_text('{"r": 4, "lora_alpha": 8}')
    with pytest.raises(ModelNotFound, match=r"has no adapter_model\.safetensors"):
        merge_adapter.changes_of(tmp_path)
    weights = tmp_path / "adapter_model.safetensors"
    weights.write_bytes(b"nothing")
    with pytest.raises(ModelDamaged, match="cannot be read"):
        merge_adapter.changes_of(tmp_path)
    one = np.zeros((4, 8), np.float32)
    save_file({"base_model.model.lm_head.lora_A.weight": one}, weights)
    with pytest.raises(ModelDamaged, match="not the other half"):
        merge_adapter.changes_of(tmp_path)
    save_file({"base_model.model.lm_head.weight": one}, weights)
    with pytest.raises(ModelError, match="none of the matrices A and B"):
        merge_adapter.changes_of(tmp_path)


def test_a_change_that_fits_no_matrix_is_refused(tmp_path: Path, tiny: Path) -> None:
    for name, shape in (("model.layers.0.mlp.down_proj", (3, 3)), ("model.layers.9.mlp.down_proj", (32, 64))):
        with pytest.raises(ModelDamaged, match="fits no matrix of tiny"):
            backbone.export_gguf(tiny, tmp_path / "out.gguf", added={name: np.zeros(shape, np.float32)})


# --- The file


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_the_file_holds_what_peft_merges(tmp_path: Path, architecture: str) -> None:
    more = {}
    if architecture == "qwen3":
        names = (f"blk.{n}.attn_{part}_norm.weight" for n in range(tiny_llama.LAYERS) for part in "qk")
        more = {name: np.ones(tiny_llama.HEAD, np.float32) for name in names}
    file = tiny_llama.write(tmp_path / "tiny.gguf", architecture=architecture, **more)
    model = trained(file, tmp_path / "adapter")
    out = merge_adapter.merged(file, tmp_path / "adapter", tmp_path / "out.gguf", "F32")
    wanted, found = model.merge_and_unload().state_dict(), backbone.frozen(out).state_dict()
    assert wanted.keys() == found.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-5, msg=name)
    before, name = backbone.frozen(file).state_dict(), "model.layers.1.self_attn.k_proj.weight"
    assert (found[name] - before[name]).abs().max() > 0.1


@pytest.mark.parametrize("precision", ["F32", "F16"])
def test_llama_cpp_writes_what_transformers_writes(
    tmp_path: Path, tiny: Path, adapter: tuple[Path, Any], precision: backbone.Stored
) -> None:
    pytest.importorskip("llama_cpp", reason="the llm extra is not installed")
    from memdb.models.llama import LlamaBackbone

    served = LlamaBackbone(
        merge_adapter.merged(tiny, adapter[0], tmp_path / "out.gguf", precision),
        context_tokens=256,
        threads=1,
    )
    ids, _ = served.prompt_ids(TURNS)
    ours, reply = greedy(adapter[1], ids, 24), served.complete(TURNS, max_tokens=24)
    plain = greedy(backbone.frozen(tiny), ids, 24)
    ends = {259, 261}
    cut = next((at for at, token in enumerate(ours) if token in ends), len(ours))
    names = [*tiny_llama.bytes_as_characters(), *map("".join, tiny_llama.MERGES)]
    bytes_of = {name: byte for byte, name in enumerate(tiny_llama.bytes_as_characters())}
    told = bytes(bytes_of[char] for token in ours[:cut] for char in names[token])
    assert reply.text == told.decode("utf-8", "replace").rstrip("\ufffd")
    assert plain != ours, "the adapter changes what is said"
    assert len(reply.text) > 3
    served.close()


def test_eight_bits_are_near(tmp_path: Path, tiny: Path, adapter: tuple[Path, Any]) -> None:
    out = merge_adapter.merged(tiny, adapter[0], tmp_path / "out.gguf", "Q8_0")
    reader = gguf.GGUFReader(out)
    kinds = {one.name: one.tensor_type.name for one in reader.tensors}
    assert kinds["blk.0.attn_q.weight"] == "Q8_0"
    assert kinds["blk.0.attn_norm.weight"] == "F32"
    assert reader.fields["general.file_type"].contents() == 7
    found, wanted = backbone.frozen(out).state_dict(), adapter[1].base_model.model.state_dict()
    name = "model.layers.0.mlp.up_proj"
    change = merge_adapter.changes_of(adapter[0])[name]
    whole = wanted[f"{name}.base_layer.weight"].numpy() + change
    error = np.abs(found[f"{name}.weight"].numpy() - whole).max()
    assert 0 < error < np.abs(whole).max() / 127


def test_rows_that_eight_bits_cannot_pack_stay_whole(tmp_path: Path) -> None:
    odd = np.random.default_rng(4).normal(0, 0.1, (8, 20)).astype(np.float32)
    file = tiny_llama.write(tmp_path / "tiny.gguf", **{"odd.weight": odd})
    out = backbone.export_gguf(file, tmp_path / "out.gguf", precision="Q8_0")
    (one,) = (one for one in gguf.GGUFReader(out).tensors if one.name == "odd.weight")
    assert one.tensor_type.name == "F32"
    np.testing.assert_array_equal(np.array(one.data), odd)


def test_the_folder_is_a_distiller(
    tmp_path: Path,
    tiny: Path,
    adapter: tuple[Path, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("llama_cpp", reason="the llm extra is not installed")
    out = tmp_path / "small"
    (tmp_path / "metrics.json").write_text('{"total": 7.5}')
    words = ["merge_adapter", "--backbone", tiny, "--adapter", adapter[0], "--prompt", "distill_brief"]
    words += ["--name", "small", "--out", out, "--licence", "Apache-2.0", "--seed", "0"]
    monkeypatch.setattr("sys.argv", [*map(str, words), "--metrics", str(tmp_path / "metrics.json")])
    merge_adapter.main()
    card = read_card_of(out, DistillerCard)
    assert json.loads(capsys.readouterr().out) == {"name": "small", "sha256": sha256_of(out / "model.gguf")}
    assert (card.base, card.base_sha256, card.prompt) == ("tiny", sha256_of(tiny), "distill_brief")
    assert (card.licence, card.metrics, card.made["seed"]) == ("Apache-2.0", {"total": 7.5}, 0)
    distiller = load_distiller(out, threads=1)
    assert distiller.style == "distill_brief"
    assert distiller.room("Who?", None) > 0
    distiller.close()

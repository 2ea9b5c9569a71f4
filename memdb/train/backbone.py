"""The frozen language model of QGMem's graph token, read from the GGUF file that llama.cpp serves.

Gradients of the graph token flow through the language model (QGMem section III-C4), which llama.cpp cannot
give: the same weights, dequantised, become a torch model. Token ids stay llama.cpp's own. `export_gguf`
writes the dequantised weights back, so that the two implementations can be compared without the quantisation
of activations in between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from memdb.errors import ModelDamaged, ModelError, ModelNotFound

if TYPE_CHECKING:
    import torch

# What llama.cpp calls the architectures, and the classes of transformers.
ARCHITECTURES: Final = {"llama": "Llama", "qwen3": "Qwen3"}
INTERLEAVED: Final = ("llama",)  # whose query and key rows a GGUF file holds in another order
FREQUENCIES: Final = "rope_freqs.weight"  # what each rotary frequency is divided by (Llama 3.1)
# What llama.cpp calls the tensors of a layer, and what transformers calls them.
LAYER_TENSORS: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TENSORS: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER: Final = re.compile(r"blk\.(\d+)\.(\w+)\.weight")

Precision = Literal["float32", "bfloat16"]
Stored = Literal["F32", "F16", "Q8_0"]
FILE_TYPES: Final[dict[Stored, int]] = {"F32": 0, "F16": 1, "Q8_0": 7}  # what llama.cpp calls such files
Q8_BLOCK: Final = 32  # weights that Q8_0 packs together


def frozen(path: str | Path, *, precision: Precision = "float32") -> Any:
    """A causal language model of transformers with the weights of a GGUF file; none takes a gradient.

    Raises ModelNotFound for no such file, ModelDamaged for one that cannot be read, ModelError for another
    architecture than Llama's or Qwen3's, or for rotary positions that are scaled otherwise than by factors.
    """
    import torch
    import transformers

    reader = _reader(Path(path))
    said = _architecture(reader, Path(path))
    with torch.device("meta"):
        name = ARCHITECTURES[said]
        config = getattr(transformers, f"{name}Config")(**_config(reader, said, Path(path)))
        model: Any = getattr(transformers, f"{name}ForCausalLM")(config)
    kind = getattr(torch, precision)
    state = {name: one.to(kind) for name, one in _state(reader, said, config).items()}
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    if differing := set(model.state_dict()) ^ set(state):
        raise ModelDamaged(
            f"{path} lacks tensors of its architecture, or has others: {sorted(differing)[:3]}"
        )
    model.load_state_dict(state, assign=True)
    rotary = type(model.model.rotary_emb)(config)  # its frequencies are not in the file
    for tensor in reader.tensors:
        if tensor.name == FREQUENCIES:
            rotary.inv_freq /= torch.from_numpy(_values(tensor).copy())
    model.model.rotary_emb = rotary
    model.tie_weights()
    return model.requires_grad_(False).eval()


def keep_beginning(model: Any, ids: Sequence[int]) -> None:
    """Evaluate what all sequences begin with once; from then on they go on after it.

    The keys and values are constants: no gradient flows into them, and they are kept once for all sequences
    of a batch. The caller's positions start at len(ids).
    """
    import torch
    from transformers import AttentionInterface, DynamicCache

    with torch.no_grad():
        given = torch.tensor([list(ids)], device=model.device)
        kept = DynamicCache()
        model.model(given, cache=kept, use_cache=True)
    for layer, read in zip(model.model.layers, kept.layers, strict=True):
        layer.self_attn.kept_keys, layer.self_attn.kept_values = read.keys[0], read.values[0]
    AttentionInterface.register("memdb_after_kept", _attend_after_kept)
    model.set_attn_implementation("memdb_after_kept")


def _attend_after_kept(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention of `query` [b, h, t, d] over kept keys [h_kv, p, d] and then `key` [b, h_kv, t, d]."""
    import torch

    b, h, t, d = query.shape
    kv, p, _d = module.kept_keys.shape
    asked = (query * scaling).reshape(b, kv, h // kv * t, d)
    before = asked @ module.kept_keys.transpose(1, 2)  # [b, kv, h/kv * t, p]
    since = (asked @ key.transpose(2, 3)).reshape(b, kv, h // kv, t, t)
    later = torch.ones(t, t, dtype=torch.bool, device=query.device).triu(1)
    since = since.masked_fill(later, -torch.inf).reshape(b, kv, h // kv * t, t)
    shares = torch.cat((before, since), -1).float().softmax(-1).to(query.dtype)
    mixed = shares[..., :p] @ module.kept_values + shares[..., p:] @ value
    return mixed.reshape(b, h, t, d).transpose(1, 2), None


def export_gguf(
    path: str | Path,
    out: str | Path,
    *,
    precision: Stored = "F32",
    added: Mapping[str, NDArray[np.float32]] | None = None,
) -> Path:
    """Write a GGUF file again with its weights dequantised: the very values that `frozen` computes with.

    Every matrix is of `precision`, vectors are float32, and so is a matrix whose rows Q8_0 cannot pack; what
    the file says of itself is copied. `added` are changes of matrices by the names and in the layout of
    transformers, without `.weight`: they are added before a matrix is packed.
    Raises what `frozen` does, and ModelDamaged for a change that fits no matrix.
    """
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    reader = _reader(Path(path))
    changes = _stored_changes(reader, Path(path), added or {})
    writer = GGUFWriter(out, _said(reader, "general.architecture", str))
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in _NOT_COPIED:
            inner = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    writer.add_file_type(FILE_TYPES[precision])
    for tensor in reader.tensors:
        values = _values(tensor)
        if tensor.name in changes:
            values = values + changes[tensor.name]
        packs = values.ndim > 1 and (precision != "Q8_0" or values.shape[-1] % Q8_BLOCK == 0)
        kind = GGMLQuantizationType[precision if packs else "F32"]
        writer.add_tensor(tensor.name, quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(out)


def _stored_changes(
    reader: Any, path: Path, added: Mapping[str, NDArray[np.float32]]
) -> dict[str, NDArray[np.float32]]:
    """The changes by the names and in the layout of the file."""
    if not added:
        return {}
    said = _architecture(reader, path)
    config = _config(reader, said, path)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    shapes = {one.name: tuple(int(side) for side in reversed(one.shape)) for one in reader.tensors}
    names = {
        f"model.layers.{layer}.{theirs}": (ours, f"blk.{layer}.{ours}.weight")
        for layer in range(config["num_hidden_layers"])
        for ours, theirs in LAYER_TENSORS.items()
    } | {theirs: (ours, f"{ours}.weight") for ours, theirs in TENSORS.items()}
    changes = {}
    for name, change in added.items():
        ours, stored = names.get(name, ("", ""))
        if shapes.get(stored) != change.shape:
            raise ModelDamaged(f"the change {list(change.shape)} of {name} fits no matrix of {path.name}")
        turned = ours in heads and said in INTERLEAVED
        changes[stored] = permuted(change, heads[ours]) if turned else change
    return changes


_NOT_COPIED: Final = {"general.architecture", "general.file_type", "general.quantization_version"}


def _reader(path: Path) -> Any:
    try:
        from gguf import GGUFReader
    except ImportError as error:
        hint = "pip install 'memdb-engine[train]'"
        raise ModelNotFound("reading the weights of a GGUF file needs the package gguf", hint=hint) from error
    if not path.is_file():
        raise ModelNotFound(f"there is no model file {path}")
    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise ModelDamaged(f"{path} cannot be read as GGUF: {error}") from error


def _said(reader: Any, key: str, kind: type, default: Any = None) -> Any:
    field = reader.fields.get(key)
    if field is None and default is None:
        raise ModelDamaged(f"the GGUF file does not say its {key}")
    return default if field is None else kind(field.contents())


def _architecture(reader: Any, path: Path) -> str:
    said: str = _said(reader, "general.architecture", str)
    if said not in ARCHITECTURES:
        hint = f"the graph token is trained through {' and '.join(ARCHITECTURES.values())} models"
        raise ModelError(f"{path.name} is a {said} model", hint=hint)
    if _said(reader, f"{said}.rope.scaling.type", str, "none") != "none":
        raise ModelError(f"{path.name} scales its rotary positions in a way that is not read here")
    return said


def _config(reader: Any, said: str, path: Path) -> dict[str, Any]:
    heads = _said(reader, f"{said}.attention.head_count", int)
    hidden = _said(reader, f"{said}.embedding_length", int)
    tables = {tensor.name: tensor for tensor in reader.tensors if not _LAYER.fullmatch(tensor.name)}
    if "token_embd.weight" not in tables:
        raise ModelDamaged(f"{path} has no table of tokens")
    rope = {
        "rope_type": "default",
        "rope_theta": _said(reader, f"{said}.rope.freq_base", float, 10_000.0),
    }
    return {
        "vocab_size": int(tables["token_embd.weight"].shape[1]),
        "hidden_size": hidden,
        "intermediate_size": _said(reader, f"{said}.feed_forward_length", int),
        "num_hidden_layers": _said(reader, f"{said}.block_count", int),
        "num_attention_heads": heads,
        "num_key_value_heads": _said(reader, f"{said}.attention.head_count_kv", int, heads),
        "head_dim": _said(reader, f"{said}.attention.key_length", int, hidden // heads),
        "max_position_embeddings": _said(reader, f"{said}.context_length", int),
        "rms_norm_eps": _said(reader, f"{said}.attention.layer_norm_rms_epsilon", float),
        "rope_parameters": rope,
        "tie_word_embeddings": "output.weight" not in tables,
        "attention_bias": False,
    }


def _state(reader: Any, said: str, config: Any) -> dict[str, torch.Tensor]:
    """The tensors by the names of transformers."""
    import torch

    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    state = {}
    for tensor in reader.tensors:
        stem, layer = tensor.name.removesuffix(".weight"), _LAYER.fullmatch(tensor.name)
        if tensor.name == FREQUENCIES:
            continue
        values = _values(tensor)
        if layer and layer[2] in LAYER_TENSORS:
            name = f"model.layers.{layer[1]}.{LAYER_TENSORS[layer[2]]}.weight"
            if layer[2] in heads and said in INTERLEAVED:
                values = unpermuted(values, heads[layer[2]])
        elif stem in TENSORS:
            name = f"{TENSORS[stem]}.weight"
        else:
            raise ModelError(f"the tensor {tensor.name} is not one of {said}'s")
        state[name] = torch.from_numpy(np.ascontiguousarray(values))
    return state


def unpermuted(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of a query or key matrix float32 [heads * d, width] in the order of transformers.

    llama.cpp rotates neighbouring pairs (2i, 2i+1) of a head, transformers the pairs (i, i + d/2): the
    converter to GGUF interleaves the two halves of each head, which is undone here.
    """
    rows, width = values.shape
    return values.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def permuted(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The inverse of `unpermuted`: what stands in a GGUF file."""
    rows, width = values.shape
    return values.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width)


def _values(tensor: Any) -> NDArray[np.float32]:
    """float32, of the shape that numpy gives a matrix: rows first."""
    from gguf.quants import dequantize

    shape = tuple(int(side) for side in reversed(tensor.shape))
    found: NDArray[np.float32] = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    return found.reshape(shape)

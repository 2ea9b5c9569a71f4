"""Chat models of two layers with random weights as GGUF files. Needs gguf; reading them needs llama_cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

WIDTH, LAYERS, HEADS, HEAD, FEED, CONTEXT = 32, 2, 4, 8, 64, 2048
MERGES: Final = [("a", "n"), ("h", "e"), ("i", "n")]
SPECIAL: Final = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE: Final = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IN_TORCH: Final = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def bytes_as_characters() -> list[str]:
    """How a byte-level vocabulary writes each byte: printable ones as they are, the others from U+0100."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def tensors(architecture: str) -> dict[str, np.ndarray]:
    """float32 weights under the names of a GGUF file, as large as lets every part show."""
    rng = np.random.default_rng(7)
    wide = HEADS * HEAD
    shapes = {"token_embd.weight": (256 + len(MERGES) + len(SPECIAL), WIDTH), "output_norm.weight": (WIDTH,)}
    for layer in (f"blk.{number}" for number in range(LAYERS)):
        shapes |= {f"{layer}.attn_{part}.weight": (wide, WIDTH) for part in "qkv"}
        shapes |= {f"{layer}.attn_output.weight": (WIDTH, wide)}
        shapes |= {f"{layer}.ffn_{part}.weight": (FEED, WIDTH) for part in ("gate", "up")}
        shapes |= {f"{layer}.ffn_down.weight": (WIDTH, FEED)}
        norms = ["attn_norm", "ffn_norm"]
        if architecture == "gemma3":
            norms += ["post_attention_norm", "post_ffw_norm"]
            shapes |= {f"{layer}.attn_{part}_norm.weight": (HEAD,) for part in "qk"}
        shapes |= {f"{layer}.{norm}.weight": (WIDTH,) for norm in norms}
    made = {}
    for name, shape in shapes.items():
        spread, middle = (0.2, 1.0) if len(shape) == 1 else (0.3, 0.0)
        made[name] = rng.normal(middle, spread, shape).astype(np.float32)
    # Bytes of characters beyond ASCII are unlikely: at random they would make no UTF-8.
    made["token_embd.weight"][128:256] *= 0.05
    return made


def write(path: Path, *, architecture: str = "llama", table: str = "F32", **more: np.ndarray) -> Path:
    """Write the file, its table of tokens packed as `table`; its path. `more` are tensors to put in."""
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    if architecture == "gemma3":
        writer.add_sliding_window(CONTEXT)
    _add_vocabulary(writer)
    kind = gguf.GGMLQuantizationType[table]
    for name, value in (tensors(architecture) | more).items():
        if name == "token_embd.weight":
            writer.add_tensor(name, gguf.quants.quantize(value, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_vocabulary(writer: Any) -> None:
    import gguf

    names = [*bytes_as_characters(), *map("".join, MERGES)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*names, *SPECIAL])
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_token_types([normal] * len(names) + [control] * len(SPECIAL))
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(len(names))
    writer.add_eos_token_id(len(names) + 2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def in_torch() -> Any:
    """transformers' Llama with the same weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=256 + len(MERGES) + len(SPECIAL),
        hidden_size=WIDTH,
        intermediate_size=FEED,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=HEAD,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval()
    made = tensors("llama")
    weights = {"model.embed_tokens.weight": made["token_embd.weight"]}
    weights["model.norm.weight"] = made["output_norm.weight"]
    for layer in range(LAYERS):
        for theirs, ours in IN_TORCH.items():
            value = made[f"blk.{layer}.{ours}.weight"]
            if ours in ("attn_q", "attn_k"):  # llama.cpp turns neighbours, transformers the two halves
                value = value.reshape(HEADS, HEAD // 2, 2, WIDTH).swapaxes(1, 2).reshape(value.shape)
            weights[f"model.layers.{layer}.{theirs}.weight"] = value
    parameters = dict(model.named_parameters())
    assert parameters.keys() == weights.keys()
    with torch.no_grad():
        for name, value in weights.items():
            parameters[name].copy_(torch.from_numpy(np.ascontiguousarray(value)))
    return model

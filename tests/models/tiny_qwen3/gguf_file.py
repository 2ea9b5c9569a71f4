"""The tiny model of `make` as a GGUF file, weights in float32. Needs gguf, torch, transformers."""

from __future__ import annotations

from pathlib import Path

from tests.models.tiny_qwen3 import make

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write(path: Path, *, ranker: bool = False) -> Path:
    """Write the file; its path. A ranker's is what llama.cpp's converter makes of a Qwen3-Reranker."""
    import gguf

    model = make.tiny_model()
    writer = gguf.GGUFWriter(path, "qwen3")
    _describe(writer, model.config)
    _add_tokens(writer)
    tensors = {name: value.detach().numpy() for name, value in model.named_parameters()}
    writer.add_tensor("token_embd.weight", tensors["model.embed_tokens.weight"])
    if ranker:
        tokenizer = make.tiny_tokenizer()
        rows = [tokenizer.token_to_id(answer) for answer in ("yes", "no")]
        writer.add_pooling_type(gguf.PoolingType.RANK)
        writer.add_classifier_output_labels(["yes", "no"])
        writer.add_tensor("cls.output.weight", tensors["model.embed_tokens.weight"][rows])
    writer.add_tensor("output_norm.weight", tensors["model.norm.weight"])
    for layer in range(model.config.num_hidden_layers):
        for theirs, ours in NAMES.items():
            writer.add_tensor(f"blk.{layer}.{ours}.weight", tensors[f"model.layers.{layer}.{theirs}.weight"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _describe(writer: object, config: object) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)


def _add_tokens(writer: object) -> None:
    import gguf

    tokenizer = make.tiny_tokenizer()
    kinds = dict.fromkeys(make.SPECIAL, gguf.TokenType.CONTROL)
    kinds |= dict.fromkeys(make.PLAIN, gguf.TokenType.USER_DEFINED)
    names = [tokenizer.id_to_token(number) for number in range(tokenizer.get_vocab_size())]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(names)
    writer.add_token_types([kinds.get(name, gguf.TokenType.NORMAL) for name in names])
    writer.add_token_merges([" ".join(pair) for pair in make.MERGES])
    writer.add_eos_token_id(tokenizer.token_to_id("<|im_end|>"))
    writer.add_pad_token_id(tokenizer.token_to_id("<|endoftext|>"))
    writer.add_add_bos_token(False)

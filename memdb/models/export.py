"""A BERT checkpoint -> the folder that `registry.load_encoder`, `load_reranker` or `load_compressor` reads.

    python -m memdb.models.export --weights DIR --out DIR
        [--kind encoder|reranker|compressor] [--precision int8|float32] [--metrics FILE]

DIR holds `model.safetensors`, `config.json`, `tokenizer.json`; the tensors of a reranker include
`classifier.weight` [1, hidden_size] and `classifier.bias` [1], those of a compressor (LLMLingua-2) the same
for 2 classes, of which the second is kept. The graph is written node by node, so one checkpoint gives the
same bytes every time.

FILE is JSON. Its keys `name`, `licence`, `source`, `max_tokens` and, of a reranker, `fields` and
`calibration` become the card's; `metrics` and `made` are merged into the card's; every other key is a
measurement.

int8: weights have one scale per output channel; activations are quantised while running, one scale per token:
a vector does not depend on its neighbours. Weights keep within -63..63: 255 * 63 * 2 is below 2**15,
so that processors which add such pairs in 16 bits (x86 without VNNI) give the same sums as all others.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from memdb import settings
from memdb.errors import InputError
from memdb.models.ports import FIELDS

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]
Tensors = Mapping[str, Array]
Config = Mapping[str, Any]
Kind = Literal["encoder", "reranker", "compressor"]
Precision = Literal["int8", "float32"]

OPSET = 20  # the first with Gelu
IR_VERSION = 9
CONTRIB = "com.microsoft"  # ONNX Runtime's own operators
FLOAT, UINT8, INT32, INT64 = 1, 2, 6, 7  # onnx.TensorProto.DataType
COMMAND = "python -m memdb.models.export --weights DIR --out DIR"
WEIGHT_TOP = 63  # see the module's docstring
ROW_TOP = 127  # word embeddings are only looked up
GELU_LOWEST = 0.17  # GELU(x) > -0.17 for every x
GELU_ZERO = 16  # code of 0 after GELU: nearly all codes serve its positive side


class Graph:
    """An ONNX graph under construction, its linear layers in float32.

    Every method adds nodes and returns the name of the value they give.
    """

    def __init__(self, tensors: Tensors, config: Config) -> None:
        self.tensors = tensors
        self.config = config
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def op(self, kind: str, *inputs: str, name: str, outputs: tuple[str, ...] = (), **attributes: Any) -> str:
        """One node; its value has the node's name unless `outputs` says otherwise."""
        import onnx

        made = list(outputs) or [name]
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), made, name=name, **attributes))
        return made[0]

    def constant(self, name: str, value: Any) -> str:
        """Python floats become float32."""
        import onnx

        array = np.asarray(value, np.float32) if isinstance(value, float) else np.asarray(value)
        self.constants[name] = onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def rows(self, name: str, table: Array, indices: str) -> str:
        """Rows of a [rows, width] table."""
        return self.op("Gather", self.constant(f"{name}.table", table), indices, name=name, axis=0)

    def linear(self, name: str, value: str, weight: Array, bias: Array, *, after_gelu: bool = False) -> str:
        """value [n, t, in], weight [out, in], bias [out] -> [n, t, out]"""
        product = self.op("MatMul", value, self.constant(f"{name}.weight", weight.T), name=f"{name}.product")
        return self.op("Add", product, self.constant(f"{name}.bias", bias), name=name)

    def dense(self, name: str, value: str, *, after_gelu: bool = False) -> str:
        """A linear layer of the checkpoint."""
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return self.linear(name, value, weight, bias, after_gelu=after_gelu)

    def layer_norm(self, name: str, value: str) -> str:
        """Over the last axis, with the gain and bias of the checkpoint."""
        gain = self.constant(f"{name}.weight", self.tensors[f"{name}.weight"])
        bias = self.constant(f"{name}.bias", self.tensors[f"{name}.bias"])
        epsilon = float(self.config["layer_norm_eps"])
        return self.op("LayerNormalization", value, gain, bias, name=name, axis=-1, epsilon=epsilon)


class Int8Graph(Graph):
    """The same with int8 weights and activations quantised per token."""

    def rows(self, name: str, table: Array, indices: str) -> str:
        """One scale per row; the table stays int8 in memory."""
        codes, scales = quantize(table, ROW_TOP)
        picked = super().rows(f"{name}.codes", codes, indices)
        scale = super().rows(f"{name}.scales", scales, indices)
        return self.op("Mul", self.op("Cast", picked, name=f"{name}.float", to=FLOAT), scale, name=name)

    def linear(self, name: str, value: str, weight: Array, bias: Array, *, after_gelu: bool = False) -> str:
        """As Graph.linear, the product in integers."""
        zero, span = code_range(after_gelu)
        codes, scales = quantize(weight, WEIGHT_TOP)
        activation, peak = self._activation(f"{name}.input", value, after_gelu=after_gelu)
        product = self.op(
            "MatMulIntegerToFloat",
            activation,
            self.constant(f"{name}.codes", codes.T),
            self.constant("one", 1.0),
            self.constant(f"{name}.scales", scales[:, 0] / np.float32(span)),
            self.constant(f"zero.{zero}", np.uint8(zero)),
            name=f"{name}.product",
            domain=CONTRIB,
        )
        scaled = self.op("Mul", product, peak, name=f"{name}.scaled")
        return self.op("Add", scaled, self.constant(f"{name}.bias", bias), name=name)

    def _activation(self, name: str, value: str, *, after_gelu: bool) -> tuple[str, str]:
        """uint8 codes [n, t, in] and each token's peak [n, t, 1]: value = (codes - zero) * peak / span."""
        zero, span = code_range(after_gelu)
        size = value if after_gelu else self.op("Abs", value, name=f"{name}.size")
        last = self.constant("last", np.array([-1]))
        top = self.op("ReduceMax", size, last, name=f"{name}.top", keepdims=1)
        # Keeps GELU's lowest above code 0, and a token of zeros from dividing by zero.
        floor = GELU_LOWEST * span / zero if after_gelu else 1e-6
        peak = self.op("Max", top, self.constant(f"floor.{zero}", floor), name=f"{name}.peak")
        factor = self.op("Div", self.constant(f"span.{zero}", float(span)), peak, name=f"{name}.factor")
        scaled = self.op("Mul", value, factor, name=f"{name}.scaled")
        shifted = self.op("Add", scaled, self.constant(f"round.{zero}", zero + 0.5), name=f"{name}.shifted")
        return self.op("Cast", shifted, name=f"{name}.codes", to=UINT8), peak


def code_range(after_gelu: bool) -> tuple[int, int]:
    """The code of 0, and how far above it a token's peak is."""
    zero = GELU_ZERO if after_gelu else 128
    return zero, 255 - zero


def quantize(weight: Array, top: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """[rows, width] -> codes in -top..top, and scales [rows, 1] that undo them."""
    scales = np.abs(weight).max(axis=1, keepdims=True).astype(np.float32) / np.float32(top)
    scales = np.where(scales == 0, np.float32(1), scales)
    return np.rint(weight / scales).astype(np.int8), scales


def bert(graph: Graph) -> None:
    """input_ids, attention_mask int64 [n, t] -> last_hidden_state float32 [n, t, hidden_size].

    Devlin et al. 2019: post-norm layers, exact GELU.
    """
    value = embeddings(graph)
    mask = graph.op("Cast", "attention_mask", name="mask", to=INT32)
    for number in range(int(graph.config["num_hidden_layers"])):
        name = f"encoder.layer.{number}"
        heads = attention(graph, f"{name}.attention.self", value, mask)
        value = add_and_norm(graph, f"{name}.attention.output", heads, value)
        wide = graph.dense(f"{name}.intermediate.dense", value)
        active = graph.op("Gelu", wide, name=f"{name}.gelu")
        value = add_and_norm(graph, f"{name}.output", active, value, after_gelu=True)
    graph.op("Identity", value, name="last_hidden_state")


def embeddings(graph: Graph) -> str:
    """Word + position + type; a text alone is all of type 0, so that row is added to the positions here."""
    words = graph.rows("embeddings.word", graph.tensors["embeddings.word_embeddings.weight"], "input_ids")
    types = graph.tensors["embeddings.token_type_embeddings.weight"]
    positions = graph.tensors["embeddings.position_embeddings.weight"] + types[0]
    length = graph.op("Shape", "input_ids", name="length", start=1, end=2)
    start = graph.constant("start", np.zeros(1, np.int64))
    table = graph.constant("embeddings.table", positions)
    used = graph.op("Slice", table, start, length, name="embeddings.positions")
    total = graph.op("Add", words, used, name="embeddings.sum")
    return graph.layer_norm("embeddings.LayerNorm", total)


def attention(graph: Graph, name: str, value: str, mask: str) -> str:
    """Query, key and value come from one product."""
    parts = [f"{name}.{part}" for part in ("query", "key", "value")]
    weight = np.concatenate([graph.tensors[f"{part}.weight"] for part in parts])
    bias = np.concatenate([graph.tensors[f"{part}.bias"] for part in parts])
    joined = graph.linear(f"{name}.qkv", value, weight, bias)
    graph.op("Split", joined, name=f"{name}.split", outputs=tuple(parts), axis=-1, num_outputs=3)
    heads = int(graph.config["num_attention_heads"])
    return graph.op(
        "MultiHeadAttention", *parts, "", mask, name=f"{name}.heads", domain=CONTRIB, num_heads=heads
    )


def add_and_norm(graph: Graph, name: str, value: str, residual: str, *, after_gelu: bool = False) -> str:
    """LayerNorm(dense(value) + residual)"""
    output = graph.dense(f"{name}.dense", value, after_gelu=after_gelu)
    return graph.layer_norm(f"{name}.LayerNorm", graph.op("Add", output, residual, name=f"{name}.sum"))


def score(graph: Graph) -> None:
    """last_hidden_state [n, t, hidden_size] -> logits float32 [n, 1], from the mean over the mask.

    Its few weights stay float32 in both precisions.
    """
    last, sequence = graph.constant("last", np.array([-1])), graph.constant("sequence", np.array([1]))
    counted = graph.op("Cast", "attention_mask", name="counted", to=FLOAT)
    columns = graph.op("Unsqueeze", counted, last, name="columns")
    kept = graph.op("Mul", "last_hidden_state", columns, name="kept")
    total = graph.op("ReduceSum", kept, sequence, name="total", keepdims=0)
    count = graph.op("ReduceSum", counted, last, name="count", keepdims=1)
    mean = graph.op("Div", total, count, name="mean")
    weight = graph.constant("classifier.weight", graph.tensors["classifier.weight"].T)
    bias = graph.constant("classifier.bias", graph.tensors["classifier.bias"])
    graph.op("Add", graph.op("MatMul", mean, weight, name="classifier"), bias, name="logits")


def to_model(
    tensors: Tensors, config: Config, precision: Precision, kind: Kind = "encoder"
) -> onnx.ModelProto:
    """The whole graph: an encoder gives last_hidden_state, the others logits, a compressor one per token."""
    import onnx

    graph = Int8Graph(tensors, config) if precision == "int8" else Graph(tensors, config)
    bert(graph)
    info = onnx.helper.make_tensor_value_info
    output = info("last_hidden_state", FLOAT, ["n", "t", int(config["hidden_size"])])
    if kind == "reranker":
        score(graph)
        output = info("logits", FLOAT, ["n", 1])
    elif kind == "compressor":
        head = [tensors[f"classifier.{part}"] for part in ("weight", "bias")]
        graph.op("Identity", Graph.linear(graph, "classifier", "last_hidden_state", *head), name="logits")
        output = info("logits", FLOAT, ["n", "t", 2])
    proto = onnx.helper.make_graph(
        graph.nodes,
        "bert",
        [info("input_ids", INT64, ["n", "t"]), info("attention_mask", INT64, ["n", "t"])],
        [output],
        list(graph.constants.values()),
    )
    opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(CONTRIB, 1)]
    return onnx.helper.make_model(proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="memdb")


def export(
    weights: Path,
    out: Path,
    *,
    kind: Kind = "encoder",
    precision: Precision = "int8",
    metrics: Config | None = None,
) -> None:
    """Write model.onnx, tokenizer.json and card.json into `out`, made if missing.

    `metrics` are the keys of FILE: see the module's docstring.
    Raises InputError for a reranker or a compressor without its head, and for keys that are not FILE's to
    say.
    """
    from safetensors.numpy import load_file

    config = json.loads((weights / "config.json").read_text())
    stored = load_file(weights / "model.safetensors")
    tensors = {key.removeprefix("bert."): value for key, value in stored.items()}
    require_head(weights, tensors, kind)
    model = to_model(tensors, config, precision, kind)
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    shutil.copyfile(weights / "tokenizer.json", out / "tokenizer.json")
    cards = {"encoder": encoder_card, "reranker": reranker_card, "compressor": compressor_card}
    about = cards[kind](config)
    made = {
        "command": f"{COMMAND} --kind {kind} --precision {precision}",
        "weights_sha256": digest(weights / "model.safetensors"),
        "versions": {package: version(package) for package in ("numpy", "onnx", "safetensors")},
    }
    card = {
        "kind": kind,
        **about,
        "files": {name: digest(out / name) for name in ("model.onnx", "tokenizer.json")},
        "providers": ["CPUExecutionProvider"] if precision == "int8" else [],
        "metrics": {},
        "made": made,
    }
    (out / "card.json").write_text(json.dumps(merged(card, set(about), metrics or {}), indent=2) + "\n")


def require_head(weights: Path, tensors: Tensors, kind: Kind) -> None:
    """Raises InputError for a checkpoint without the head of its kind."""
    if kind == "encoder":
        return
    units = 1 if kind == "reranker" else 2
    head = (tensors.get(f"classifier.{part}", np.empty(0)) for part in ("weight", "bias"))
    if [len(part) for part in head] != [units, units]:
        message = f"{weights} holds no {kind}: it lacks classifier.weight and classifier.bias of {units} rows"
        raise InputError(message)


def encoder_card(config: Config) -> dict[str, Any]:
    """What the card says of the encoder that comes with memdb."""
    return {
        "name": "memdb-encoder-v1",
        "licence": "Apache-2.0",
        "source": "fine-tuned by memdb from sentence-transformers/all-MiniLM-L6-v2",
        "dimension": int(config["hidden_size"]),
        "max_tokens": 256,
        "pooling": "mean",
        "query_prefix": "",
        "attention": attention_shape(config),
    }


def attention_shape(config: Config) -> dict[str, Any]:
    """What the card says of where the model attends: the last third of its layers (LightMem: 4 of 12)."""
    layers = int(config["num_hidden_layers"])
    names = [
        f"encoder.layer.{number}.attention.self" for number in range(layers - max(1, layers // 3), layers)
    ]
    room = (int(config["max_position_embeddings"]) - 2) // 2  # of either text, [CLS] and [SEP] left out
    return {
        "heads": int(config["num_attention_heads"]),
        "layers": [[f"{name}.query", f"{name}.key"] for name in names],
        "text_tokens": min(settings.ATTENTION_TEXT_TOKENS, room),
    }


def compressor_card(config: Config) -> dict[str, Any]:
    """What the card says of a compressor, where FILE says nothing else."""
    return {
        "name": "llmlingua2",
        "licence": "",
        "source": "",
        "max_tokens": min(settings.CHUNK_TOKENS, int(config["max_position_embeddings"])),
        "attention": attention_shape(config),
    }


def reranker_card(config: Config) -> dict[str, Any]:
    """What the card says of the reranker that comes with memdb, where FILE says nothing else."""
    return {
        "name": "memdb-reranker-v1",
        "licence": "Apache-2.0",
        "source": "trained by memdb on the trunk of sentence-transformers/all-MiniLM-L6-v2",
        "max_tokens": 256,
        "fields": list(FIELDS),
        "calibration": {},
    }


def merged(card: dict[str, Any], about: set[str], given: Config) -> dict[str, Any]:
    """The card with FILE's keys in their places, those of `about` but what follows from the checkpoint."""
    for key, value in given.items():
        if key in ("metrics", "made"):
            card[key] |= value
        elif key in about - {"dimension", "pooling", "query_prefix", "attention"}:
            card[key] = value
        elif key in card:
            raise InputError(f"the card's {key} follows from the checkpoint and is not given")
        else:
            card["metrics"][key] = value
    return card


def digest(file: Path) -> str:
    """SHA-256, hex."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> None:
    """Read the command line, write the folder."""
    parser = argparse.ArgumentParser(description="A BERT checkpoint -> an ONNX folder.")
    parser.add_argument("--weights", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--kind", choices=get_args(Kind), default="encoder")
    parser.add_argument("--precision", choices=get_args(Precision), default="int8")
    parser.add_argument("--metrics", type=Path, help="JSON file for the card: see the module's docstring")
    args = parser.parse_args()
    metrics = json.loads(args.metrics.read_text()) if args.metrics else None
    export(args.weights, args.out, kind=args.kind, precision=args.precision, metrics=metrics)


if __name__ == "__main__":
    main()

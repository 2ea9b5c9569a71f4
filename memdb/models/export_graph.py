"""A trained graph encoder -> the folder that `registry.load_graph_encoder` reads.

    python -m memdb.models.export_graph --weights DIR --out DIR [--precision float16|float32]

DIR holds `model.safetensors`, the tensors of a `generate.graph_token.GraphToken`, and `card.json` of the kind
"graph". The graph is written node by node, so one checkpoint gives the same bytes every time. It takes
`nodes` [n, d], `edges` int64 [2, e], `relations` [e, d], for every n from 1 and every e from 0, and gives
`row` [width].

float16 halves the file: matrices are stored as float16 and computed with as float32.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec
import numpy as np

from memdb.errors import InputError, ModelDamaged
from memdb.models.card import GraphCard, read_card_of, sha256_of
from memdb.models.export import FLOAT, INT64, IR_VERSION, OPSET, Array, Graph, Tensors
from memdb.models.graph_shape import GraphShape

if TYPE_CHECKING:
    import onnx

Precision = Literal["float16", "float32"]

COMMAND = "python -m memdb.models.export_graph --weights DIR --out DIR"
NORM_EPSILON: Final = 1e-5  # of torch's BatchNorm1d and LayerNorm
NOTHING: Final = (
    -1e30
)  # the logit of an edge that does not lead to the node: finite, so that no NaN comes of it
JOINED: Final = ("query", "key", "value", "skip")  # the linear maps of a node's state, one product


class HalfGraph(Graph):
    """The same with its matrices stored as float16; the runtime widens them once, when it loads the graph."""

    def constant(self, name: str, value: Any) -> str:
        """Raises InputError for a weight that float16 does not reach."""
        array = np.asarray(value)
        if array.dtype != np.float32 or array.ndim < 2:
            return super().constant(name, value)
        if np.abs(array).max() > np.finfo(np.float16).max:
            raise InputError(f"{name} holds a weight too large for float16", hint="export it as float32")
        return self.op(
            "Cast", super().constant(f"{name}.half", array.astype(np.float16)), name=name, to=FLOAT
        )


def graph_token(graph: Graph, shape: GraphShape) -> None:
    """nodes, edges, relations -> row: QGMem equations 6 and 7."""
    relations, sources, incoming = incidence(graph, shape)
    states = "nodes"
    for number in range(shape.layers):
        states = layer(graph, f"layers.{number}", states, relations, sources, incoming, shape)
        if number < shape.layers - 1:
            states = graph.op("Relu", norm(graph, f"norms.{number}", states, shape), name=f"relu.{number}")
    first = graph.constant("first", np.array([0]))
    pooled = graph.op("ReduceMean", states, first, name="pooled", keepdims=1)  # [1, d]
    hidden = graph.dense("projector.0", pooled)
    kind = {"sigmoid": "Sigmoid", "gelu": "Gelu"}[shape.activation]
    row = graph.dense("projector.2", graph.op(kind, hidden, name="active"))
    if shape.row_rms is not None:
        row = graph.layer_norm("row_norm", row)
    graph.op("Squeeze", row, first, name="row")


def incidence(graph: Graph, shape: GraphShape) -> tuple[str, str, str]:
    """relations [e + 1, d], sources [e + 1], and incoming, bool [n, e + 1]: whether an edge leads to a node.

    The edge added at the end comes from node 0, with a relation of zeros, and leads to no node: it spares
    the runtime products over no edges.
    """
    zero, one = graph.constant("zero", np.array([0])), graph.constant("one", np.array([1]))
    count = graph.op("Shape", "nodes", name="count", start=0, end=1)
    end = graph.op("Concat", zero, count, name="end", axis=0)
    added = graph.op("Unsqueeze", end, one, name="added")  # [2, 1]
    edges = graph.op("Concat", "edges", added, name="all_edges", axis=1)
    blank = graph.constant("blank", np.zeros((1, shape.dimension), np.float32))
    relations = graph.op("Concat", "relations", blank, name="all_relations", axis=0)
    ends = ("source_row", "target_row")
    graph.op("Split", edges, name="split_edges", outputs=ends, axis=0, num_outputs=2)
    sources = graph.op("Squeeze", ends[0], zero, name="sources")
    scalar = graph.op("Squeeze", count, zero, name="node_count")
    start, step = graph.constant("start", np.int64(0)), graph.constant("step", np.int64(1))
    numbers = graph.op("Range", start, scalar, step, name="numbers")
    column = graph.op("Unsqueeze", numbers, one, name="column")  # [n, 1]
    return relations, sources, graph.op("Equal", column, ends[1], name="incoming")


def layer(
    graph: Graph, name: str, states: str, relations: str, sources: str, incoming: str, shape: GraphShape
) -> str:
    """Equation 6 without Γ: [n, d] -> [n, d], with the attention of every node over every edge."""
    parts = {part: f"{name}.{part}" for part in JOINED}
    weight = np.concatenate([graph.tensors[f"{name}.lin_{part}.weight"] for part in JOINED])
    bias = np.concatenate([graph.tensors[f"{name}.lin_{part}.bias"] for part in JOINED])
    joined = graph.linear(f"{name}.joined", states, weight, bias)
    graph.op(
        "Split", joined, name=f"{name}.split", outputs=tuple(parts.values()), axis=-1, num_outputs=len(JOINED)
    )
    table = graph.constant(f"{name}.lin_edge.weight", graph.tensors[f"{name}.lin_edge.weight"].T)
    said = graph.op("MatMul", relations, table, name=f"{name}.edge")
    keys, values = (
        graph.op(
            "Add",
            graph.op("Gather", parts[part], sources, name=f"{name}.{part}_of_edge", axis=0),
            said,
            name=f"{name}.{part}_said",
        )
        for part in ("key", "value")
    )
    message = attention(graph, name, (parts["query"], keys, values), incoming, shape)
    return graph.op("Add", parts["skip"], message, name=name)


def attention(
    graph: Graph, name: str, query_key_value: tuple[str, str, str], incoming: str, shape: GraphShape
) -> str:
    """[n, d], [e, d], [e, d] -> messages [n, d], 0 for a node to which no edge leads."""
    size = shape.dimension // shape.heads
    heads = graph.constant("heads", np.array([-1, shape.heads, size]))
    query, key, value = (
        graph.op(
            "Transpose",
            graph.op("Reshape", part, heads, name=f"{part}.heads"),
            name=f"{part}.turned",
            perm=turned,
        )
        for part, turned in zip(query_key_value, ([1, 0, 2], [1, 2, 0], [1, 0, 2]), strict=True)
    )
    product = graph.op("MatMul", query, key, name=f"{name}.product")  # [heads, n, e]
    scale = graph.constant("scale", float(1 / np.sqrt(size)))
    scaled = graph.op("Mul", product, scale, name=f"{name}.scaled")
    logits = graph.op("Where", incoming, scaled, graph.constant("nothing", NOTHING), name=f"{name}.logits")
    shares = graph.op("Softmax", logits, name=f"{name}.shares", axis=-1)
    # A node without edges has shares of what does not lead to it: these are taken away.
    zeros = graph.constant("no_share", 0.0)
    kept = graph.op("Where", incoming, shares, zeros, name=f"{name}.kept")
    message = graph.op("MatMul", kept, value, name=f"{name}.message")  # [heads, n, size]
    rows = graph.op("Transpose", message, name=f"{name}.rows", perm=[1, 0, 2])
    flat = graph.constant("flat", np.array([-1, shape.dimension]))
    return graph.op("Reshape", rows, flat, name=f"{name}.messages")


def norm(graph: Graph, name: str, states: str, shape: GraphShape) -> str:
    """BatchNorm with the statistics of training, as one product and one sum, or LayerNorm."""
    if shape.norm == "layer":
        return graph.layer_norm(name, states)
    gain, bias = graph.tensors[f"{name}.weight"], graph.tensors[f"{name}.bias"]
    mean, variance = graph.tensors[f"{name}.running_mean"], graph.tensors[f"{name}.running_var"]
    scale = gain / np.sqrt(variance + np.float32(NORM_EPSILON))
    scaled = graph.op("Mul", states, graph.constant(f"{name}.scale", scale), name=f"{name}.scaled")
    return graph.op("Add", scaled, graph.constant(f"{name}.shift", bias - mean * scale), name=name)


def tensor_shapes(shape: GraphShape) -> dict[str, tuple[int, ...]]:
    """The tensors of a checkpoint that are read, by name."""
    d, hidden, width = shape.dimension, shape.projector_hidden, shape.width
    shapes: dict[str, tuple[int, ...]] = {}
    for name in (f"layers.{number}" for number in range(shape.layers)):
        shapes |= {f"{name}.lin_{part}.weight": (d, d) for part in (*JOINED, "edge")}
        shapes |= {f"{name}.lin_{part}.bias": (d,) for part in JOINED}
    statistics = ("running_mean", "running_var") if shape.norm == "batch" else ()
    for name in (f"norms.{number}" for number in range(shape.layers - 1)):
        shapes |= {f"{name}.{part}": (d,) for part in ("weight", "bias", *statistics)}
    shapes |= {"projector.0.weight": (hidden, d), "projector.0.bias": (hidden,)}
    shapes |= {"projector.2.weight": (width, hidden), "projector.2.bias": (width,)}
    if shape.row_rms is not None:
        shapes |= {"row_norm.weight": (width,), "row_norm.bias": (width,)}
    return shapes


def require_tensors(tensors: Tensors, shape: GraphShape) -> None:
    """Raises ModelDamaged for tensors that are missing, of other sizes, or no finite numbers."""
    for name, expected in tensor_shapes(shape).items():
        if name not in tensors or tensors[name].shape != expected:
            found = list(tensors[name].shape) if name in tensors else "missing"
            raise ModelDamaged(f"the tensor {name} is {found}, not {list(expected)}")
        if not np.isfinite(tensors[name]).all():
            raise ModelDamaged(f"the tensor {name} holds what is no finite number")


def to_graph_model(tensors: Tensors, shape: GraphShape, precision: Precision = "float32") -> onnx.ModelProto:
    """The whole graph. Raises what `require_tensors` raises, and InputError where float16 does not reach."""
    import onnx

    require_tensors(tensors, shape)
    plain: dict[str, Array] = {name: np.asarray(tensors[name], np.float32) for name in tensor_shapes(shape)}
    config = {"layer_norm_eps": NORM_EPSILON}
    graph = HalfGraph(plain, config) if precision == "float16" else Graph(plain, config)
    graph_token(graph, shape)
    info = onnx.helper.make_tensor_value_info
    proto = onnx.helper.make_graph(
        graph.nodes,
        "graph_token",
        [
            info("nodes", FLOAT, ["n", shape.dimension]),
            info("edges", INT64, [2, "e"]),
            info("relations", FLOAT, ["e", shape.dimension]),
        ],
        [info("row", FLOAT, [shape.width])],
        list(graph.constants.values()),
    )
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    return onnx.helper.make_model(proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="memdb")


def export_graph_token(weights: Path, out: Path, *, precision: Precision = "float32") -> None:
    """Write model.onnx and card.json into `out`, made if missing.

    Raises what `card.read_card_of` raises, ModelDamaged for tensors that are not of the card's sizes, and
    InputError for a weight that float16 does not reach.
    """
    from safetensors.numpy import load_file

    card = read_card_of(weights, GraphCard)
    model = to_graph_model(load_file(weights / card.model), card.shape, precision)
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    made = {
        "command": f"{COMMAND} --precision {precision}",
        "weights_sha256": card.sha256,
        "versions": {package: version(package) for package in ("numpy", "onnx", "safetensors")},
    }
    changes = {
        "model": "model.onnx",
        "files": {"model.onnx": sha256_of(out / "model.onnx")},
        "providers": ["CPUExecutionProvider"],  # so small that a device costs more than it gives
        "made": card.made | made,
    }
    write_graph_card(msgspec.structs.replace(card, **changes), out)


def write_graph_card(card: GraphCard, folder: Path) -> None:
    """card.json as `card.read_card` reads it."""
    text = json.dumps({"kind": "graph", **msgspec.to_builtins(card)}, indent=2)
    (folder / "card.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Read the command line, write the folder."""
    parser = argparse.ArgumentParser(description="A trained graph encoder -> an ONNX folder.")
    parser.add_argument("--weights", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--precision", choices=get_args(Precision), default="float32")
    args = parser.parse_args()
    export_graph_token(args.weights, args.out, precision=args.precision)


if __name__ == "__main__":
    main()

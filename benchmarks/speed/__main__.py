"""What a part of memdb costs, as one JSON document.

python -m benchmarks.speed add --data DIR             adding, on the messages of LoCoMo
python -m benchmarks.speed append --data DIR          appending to a small file and to a large one
python -m benchmarks.speed dense --data DIR           the nearest vectors, on and around those of LoCoMo
python -m benchmarks.speed graph_token --gguf FILE    the graph token, against the prompt without it
python -m benchmarks.speed make --keep DIR --sizes 1m  files to measure with, made once; prints their paths
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import msgspec

from memdb.models.registry import load_backbone, load_encoder, load_graph_encoder

from ..quality.data import find_files
from ..quality.locomo import PATTERN, load
from . import add, append, dense, graph_token
from .files import Files, parse_sizes

SMALL = 1_000  # messages of the small file of append


def main() -> None:
    """Read the options, measure, print one JSON document."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description=__doc__, formatter_class=form
    )
    parser.add_argument("name", choices=["add", "append", "dense", "graph_token", "make"])
    parser.add_argument("--data", type=Path, help="folder with LoCoMo conversations (default: MEMDB_DATA)")
    parser.add_argument(
        "--messages", type=int, default=100_000, help="of add; of append and dense: of the largest file"
    )
    parser.add_argument("--keep", type=Path, help="of make: the folder")
    parser.add_argument("--sizes", default="10k,100k,1m", help="of make: messages of each file")
    parser.add_argument("--gguf", type=Path, help="of graph_token: the language model")
    parser.add_argument("--graph", type=Path, help="its graph encoder (default: one with random weights)")
    parser.add_argument("--rounds", type=int, default=15, help="of graph_token")
    parser.add_argument("--threads", type=int, help="of graph_token: of all its models")
    chosen = parser.parse_args()
    if chosen.name == "graph_token" and (chosen.gguf is None or chosen.rounds < 1):
        parser.error("graph_token needs --gguf FILE and at least one round")
    if chosen.name == "make":
        if chosen.keep is None:
            parser.error("make needs --keep DIR")
        files = Files(chosen.keep, load_encoder(threads=chosen.threads))
        for size in parse_sizes(chosen.sizes):
            print(files.path(size))
        return
    result: msgspec.Struct
    if chosen.name == "graph_token":
        result = reading(chosen)
    elif chosen.name == "dense":
        result = nearest(chosen)
    elif chosen.name == "add":
        result = add.measure(texts(chosen), chosen.messages)
    else:
        result = append.measure(texts(chosen), SMALL, chosen.messages)
    print(msgspec.json.format(msgspec.json.encode(result)).decode())


def texts(chosen: argparse.Namespace) -> list[tuple[str, str]]:
    """Speakers and contents of LoCoMo's messages."""
    conversations = load(find_files("locomo", PATTERN, chosen.data))
    return [(m.speaker, m.content) for c in conversations for session in c.sessions for m in session.messages]


def nearest(chosen: argparse.Namespace) -> dense.Result:
    """See `dense`; every tenth text asks."""
    encoder = load_encoder(threads=chosen.threads)
    said = list(dict.fromkeys(f"{speaker}: {content}" for speaker, content in texts(chosen)))
    vectors = encoder.encode(said)
    asking = [number % 10 == 0 for number in range(len(said))]
    queries = vectors[asking][: dense.QUESTIONS]
    sizes = [size for size in dense.SIZES if size < chosen.messages] + [chosen.messages]
    return dense.measure(vectors[[not one for one in asking]], queries, sizes)


def reading(chosen: argparse.Namespace) -> graph_token.Result:
    """See `graph_token`."""
    backbone = load_backbone(chosen.gguf, threads=chosen.threads)
    encoder = load_encoder(threads=chosen.threads)
    try:
        reader = graph_token.reading_rows(backbone)
        with tempfile.TemporaryDirectory() as folder:
            if chosen.graph is None:
                graph = graph_token.untrained(encoder.dimension, reader.embedding_width, Path(folder))
            else:
                graph = load_graph_encoder(chosen.graph)
            return graph_token.measure(reader, encoder, graph, chosen.rounds)
    finally:
        backbone.close()


if __name__ == "__main__":
    main()

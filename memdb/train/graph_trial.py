"""What a graph token tells a served model: made-up worlds that were not trained on, asked through llama.cpp.

Each question is asked with its own graph's token, without one, and with another world's. Where the text does
not hold the answer only the first can be right more often than by chance, one in OPTIONS.

    python -m memdb.train.graph_trial --backbone GGUF --graph-encoder FOLDER [--count 100] [--wording 0 1]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memdb import settings
from memdb.errors import ModelError
from memdb.generate.answer_prompt import ANSWER_SCHEMA, answer_turns
from memdb.generate.local_graph import edge_array
from memdb.generate.reply import read_reply
from memdb.language.terms import fold
from memdb.models.ports import EmbeddingBackbone, Encoder, GraphEncoder, SoftToken
from memdb.train.graph_examples import Example
from memdb.train.graph_world import World, worlds
from memdb.train.metrics import wilson

SEED: Final = "trial"
Token = Literal["own", "none", "foreign"]
TOKENS: Final[tuple[Token, ...]] = ("own", "none", "foreign")


class Tried(NamedTuple):
    """A world, with which token it was asked, and what was answered."""

    world: World
    token: Token
    answer: str

    @property
    def right(self) -> bool:
        """Whether the answer names the right one of the question's options, and no other."""
        said = fold(self.answer)
        return [option for option in self.world.options if fold(option) in said] == [self.world.answer]


def tried(
    some: Sequence[World], backbone: EmbeddingBackbone, graph_encoder: GraphEncoder, encoder: Encoder
) -> list[Tried]:
    """Every world asked with each of TOKENS; the foreign one is the next world's."""
    rows = [row(world.example, graph_encoder, encoder) for world in some]
    found = []
    for number, world in enumerate(some):
        given: dict[Token, NDArray[np.float32] | None] = {
            "own": rows[number],
            "none": None,
            "foreign": rows[(number + 1) % len(rows)],
        }
        turns, place = answer_turns(world.example.question, None, world.example.memory)
        for token, vector in given.items():
            soft = None if vector is None else SoftToken(vector, *place)
            reply = backbone.complete(
                turns, max_tokens=settings.ANSWER_TOKENS, schema=ANSWER_SCHEMA, soft=soft
            )
            try:
                answer = read_reply(reply).answer
            except ModelError:  # it went on about its reason until there was no room
                answer = ""
            found.append(Tried(world, token, answer))
    return found


def row(example: Example, graph_encoder: GraphEncoder, encoder: Encoder) -> NDArray[np.float32]:
    """float32 [width]: the token of an example's graph, made as `generate/qgmem.py` makes it."""
    graph = example.graph
    vectors = encoder.encode([*graph.nodes, *graph.relations])
    count = len(graph.nodes)
    return graph_encoder.row(vectors[:count], edge_array(graph), vectors[count:])


STRATA: Final[dict[str, Callable[[World], bool]]] = {
    "in the graph alone": lambda world: not world.told,
    "one relation": lambda world: not world.told and world.hops == 1,
    "two relations": lambda world: not world.told and world.hops == 2,
    "one holder": lambda world: not world.told and not world.contested,
    "two holders": lambda world: not world.told and world.contested,
    "told in the text too": lambda world: world.told,
}


def accuracies(found: Sequence[Tried]) -> dict[str, dict[str, list[float]]]:
    """Share of right answers by stratum and token: [share, low, high, count], 95 % by Wilson's interval."""
    told: dict[str, dict[str, list[float]]] = {}
    for name, belongs in STRATA.items():
        for token in TOKENS:
            right = [one.right for one in found if one.token == token and belongs(one.world)]
            if right:
                low, high = wilson(sum(right), len(right))
                figures = [sum(right) / len(right), low, high, len(right)]
                told.setdefault(name, {})[token] = [round(figure, 3) for figure in figures]
    return told


def main() -> None:
    """Read the command line, ask, print a line of JSON for each wording."""
    from memdb.models.llama import LlamaBackbone
    from memdb.models.registry import load_encoder, load_graph_encoder

    parser = argparse.ArgumentParser(description="Ask made-up worlds through a graph token.")
    parser.add_argument("--backbone", type=Path, required=True, help="GGUF file")
    parser.add_argument("--graph-encoder", required=True, help="name or folder")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--wording", type=int, nargs="+", default=[0, 1], help="2 was never trained on")
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    encoder, graph_encoder = load_encoder(), load_graph_encoder(args.graph_encoder)
    backbone = LlamaBackbone(args.backbone, context_tokens=2048, threads=args.threads)
    for wording in args.wording:
        some = list(islice(worlds(SEED, held_out=True, wordings=(wording,)), args.count))
        told = accuracies(tried(some, backbone, graph_encoder, encoder))
        print(json.dumps({"wording": wording, **told}), flush=True)
    backbone.close()


if __name__ == "__main__":
    main()

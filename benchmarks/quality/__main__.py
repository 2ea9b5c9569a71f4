"""`python -m benchmarks.quality NAME --data DIR`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import memdb

from .run import BENCHMARKS, RESULTS, bench


def main() -> int:
    """Read the command line and run; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("name", help=f"which benchmark: {', '.join(BENCHMARKS)}")
    parser.add_argument("--data", type=Path, metavar="DIR", help="its data; without it MEMDB_DATA")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"results file to add to ({RESULTS})")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="picture to write (png, svg, pdf)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--limit", type=int, metavar="N", help="ask only the first N questions")
    parser.add_argument(
        "--channels", action="append", default=[], metavar="A,B", help="one more column: these channels alone"
    )
    parser.add_argument("--ablate", action="store_true", help="columns with a part of memdb less")
    parser.add_argument("--depths", metavar="A,B", help="columns that rerank so many candidates: 0,20,50,100")
    parser.add_argument("--sizes", metavar="A,B", help="of a benchmark in several sizes, these alone")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the memory files, use those there")
    parser.add_argument(
        "--haystack", type=int, metavar="N", help="sessions of other questions that each is asked among"
    )
    parser.add_argument("--answers", action="store_true", help="answer the questions too")
    parser.add_argument("--llm", metavar="MODEL", help="GGUF file or openai:NAME that answers")
    parser.add_argument("--graph", metavar="FOLDER", help="graph encoder whose token the model reads too")
    parser.add_argument("--judge", metavar="MODEL", help="GGUF file or openai:NAME that judges the answers")
    parser.add_argument("--judgings", type=int, metavar="N", help="how often it judges each (10; 1 for GGUF)")
    try:
        return bench(**vars(parser.parse_args()))
    except memdb.MemdbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

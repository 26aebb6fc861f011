# One command each, the same on a laptop and in CI; `make` alone lists them.
#
#   PYTHON=python3.12 make test     another Python, 3.11 or later
#   make demo ARGS="--help"         arguments for the command behind a target
#   make demo ARGS=--keep           the page of the demo stays up until Ctrl-C; --open opens it, too
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.NOTPARALLEL:

PYTHON ?= python3
ARGS ?=
# Of the tests. 0 runs all in one process. Broker tests wait more than they compute, so four fit two
# cores; `tests/conftest.py` mixes them among the others.
PROCESSES ?= 4
VENV := .venv
BIN := $(VENV)/bin
# `tests.run` measures the CPU time of a run of pytest.
PYTEST := $(BIN)/python -m tests.run --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder
# Inside the environment, so that it goes when the environment goes.
READY := $(VENV)/.ready

.PHONY: needs-demo needs-test help demo test test-all nightly durations check bench simulate chaos lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-9s  %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# What Debian lacks here is installed before the environment is made.
needs-demo needs-test:
	@PYTHON=$(PYTHON) deploy/install-debian $(@:needs-%=%)

demo: needs-demo $(READY) ## Run the whole system on this machine: broker, worker, devices, a page
	@$(BIN)/murmurec demo $(ARGS)

test: needs-test $(READY) ## Run the fast tests and every feature once, against a real Kafka and browser
	@$(PYTEST) $(ARGS)

test-all: needs-test $(READY) ## Run also the tests of every fault, page and wheel
	@$(PYTEST) -m 'not nightly and not benchmark' $(ARGS)

nightly: $(if $(ARGS),needs-test $(READY),test-all) ## Run also chaos, simulation, every processor and width (hours)
	@MURMUREC_SEED=$${MURMUREC_SEED:-new} $(PYTEST) -m nightly $(ARGS)
	@$(if $(ARGS),,$(BIN)/python -m tests.simulation)
	@$(if $(ARGS),,$(BIN)/python -m tests.chaos)

durations: $(READY) ## Measure where the time of `make test` goes, into build/durations.md
	@$(PYTEST) --page build/durations.md -p tests.durations

check: $(READY) ## Run the linter, the formatter's check, the type checker; read new commits' subjects
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python -m tests.commits

bench: $(READY) ## Run the benchmarks, into bench.json and bench-report/
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks --report bench-report $(ARGS)

simulate: $(READY) ## Run 3,000,000 crash schedules of the checkpoint protocol
	@$(BIN)/python -m tests.simulation $(ARGS)

chaos: $(READY) ## Kill real workers 200 times and compare what is left (half an hour)
	@$(BIN)/python -m tests.chaos $(ARGS)

lock: $(READY) ## Refresh requirements.lock from pyproject.toml
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet --upgrade \
	  --output-file requirements.lock
	@! grep -nE 'https?://|file:' requirements.lock || { echo 'the lock holds an address'; exit 1; }

clean: ## Remove the virtual environment and every cache in this folder
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	@find murmurec stream_app producers consumers research tests -name __pycache__ -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) > /dev/null || { echo "no $(PYTHON): install Python 3.11 or later, or set PYTHON"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is too old: murmurec needs Python 3.11 or later; set PYTHON"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null \
	  || { echo "$(PYTHON) has no venv (Debian: apt-get install python3-venv)"; exit 1; }
	@echo "Setting up $(VENV): Python packages, a minute or two ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

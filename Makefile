# One entry point. Everything works on a machine that has python3 (3.11 or newer), git and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# One BLAS thread per process: the workers are processes, and sums in one order give the same bytes everywhere.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: help demo dev test lint test-unit test-slow test-docker bench mini train lock clean

help:            ## say what can be made
	@sed -n 's/^\([a-z-]*\): .*## /  make \1\t/p' $(MAKEFILE_LIST)

demo: $(STAMP)   ## install, then run the whole graph on the embedded world
	$(BIN)/handoff demo

dev: $(STAMP)    ## open the Dagster UI on the demo's instance
	$(BIN)/handoff dev

test: lint test-unit test-slow test-docker  ## everything CI runs

lint: $(STAMP)   ## ruff, import contracts, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy --strict handoff

test-unit: $(STAMP)  ## the unit suite (under 3 minutes on 2 cores)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow and not docker"

test-slow: $(STAMP)  ## long tests: the killed demo, large files, 20,000 damaged records a format
	$(BIN)/python -m pytest -q -n 2 -m "slow and not docker"

test-docker: $(STAMP)  ## tests that need a docker engine; they skip, with the reason, where none is or can be started
	$(BIN)/python -m pytest -q -m docker

bench: $(STAMP)  ## speed and memory beside the limit and a naive baseline, measured in the same run
	$(BIN)/python -m bench

mini:            ## mini-swe-agent in .venv-mini, for long tests of agents that are commands
	$(PYTHON) -m venv .venv-mini
	.venv-mini/bin/python -m pip install --quiet --disable-pip-version-check mini-swe-agent==2.4.6

train: $(STAMP)  ## PyTorch and TRL beside the rest, for long tests of training files and of the objective
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement requirements-train.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0

lock:            ## resolve requirements.lock anew (needs uv); requirements-train.lock is what `--extra train` adds, without PyTorch
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --output-file requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "HANDOFF-DATA needs Python 3.11 or newer and found $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "This Python has no venv module. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "installing the locked environment into $(VENV) (once, about two minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

clean:           ## remove the environment and the demo's data
	rm -rf $(VENV) data

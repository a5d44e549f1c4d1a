# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. TARGET=bmv2 runs on simple_switch_grpc,
# COMPILER=p4c|own chooses the compiler (default: p4c-bm2-ss when it is on PATH).
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV ?= .venv
PYTHON := $(VENV)/bin/python
TARGET ?= embedded
COMPILER ?= auto
SCALE ?= 0.1
DIR ?= tests/stf/cases
ARGS ?=
export TARGET COMPILER SCALE

# The packages' stamp: set up again only when their list changes.
SETUP := $(VENV)/.setup-done
$(SETUP): pyproject.toml scripts/setup.sh
	scripts/setup.sh $(VENV)
	touch $@

.PHONY: help setup build demo test test-all paper ptf stf bench lint format clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 14

setup: $(SETUP)  ## virtual environment, Python packages, Mininet

build: $(SETUP)  ## compile the P4 programs into build/
	$(PYTHON) -m controller compile

demo: $(SETUP)  ## the main job: train over a fat-tree, with and without FORGIVE (Mininet as root, else virtual time)
	$(PYTHON) -m controller.experiments.demo $(ARGS)

test: $(SETUP) lint  ## lint, unit, property, packet and Mininet tests: under 10 minutes
	$(PYTHON) -m pytest -n 2 -m "not slow" $(ARGS)

test-all: $(SETUP)  ## every test, the long ones too
	$(PYTHON) -m pytest -n 2 $(ARGS)

paper: $(SETUP)  ## the paper's worst fabric in virtual time, beside its figures (SCALE=full: all steps and seeds)
	$(PYTHON) -m controller.experiments.paper --resume $(ARGS)

ptf: $(SETUP)  ## packet tests by the ptf runner (root)
	$(PYTHON) -m ptf_tests.run --target $(TARGET) $(ARGS)

stf: $(SETUP)  ## STF packet tests of a folder: DIR=folder COMPILER=p4c|own (ARGS="--jobs 2 --only NAME")
	$(PYTHON) -m tests.stf $(DIR) --compiler $(COMPILER) --target $(TARGET) $(ARGS)

bench: $(SETUP)  ## benchmarks of the hot paths
	$(PYTHON) -m scripts.bench $(ARGS)

lint: $(SETUP)  ## ruff and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy compiler controller hosts profiles scripts target topologies virtual ptf_tests tests

format: $(SETUP)  ## let ruff format the Python code
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean:  ## remove what was built (not the virtual environment)
	rm -rf build pcaps logs .pytest_cache .mypy_cache .ruff_cache .hypothesis

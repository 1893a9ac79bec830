# Needs Python 3.11 or newer, make, git and internet access; everything else goes into .venv.
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help demo run test check bench

# The first Python here that is new enough; another one: make PYTHON=/path/to/python ...
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c '$(NEW_ENOUGH)' 2>/dev/null && { echo "$$python"; break; }; done)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

help:  ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' Makefile

demo: .venv/installed  ## the whole job on a throw-away folder; DEMO_EXIT=1 leaves after the results
	@exec $(BIN)/loops demo $(if $(filter-out 0,$(DEMO_EXIT)),--exit)

run: .venv/installed  ## the service on ./.loops; ARGS="--role web" and the like are passed on
	@exec $(BIN)/loops serve $(ARGS)

test: .venv/installed-for-tests  ## the whole suite; ARGS="-k schedule" and the like are passed on
	@$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

check: .venv/installed-for-tests  ## format, lint, types, unit and contract tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit tests/contract tests/test_layers.py

bench: .venv/installed-for-tests  ## measure accepting, matching and running
	@$(BIN)/python -m tests.bench $(ARGS)

# Standard output belongs to the demo alone, so all that installing says goes to standard error.
.venv/installed: pyproject.toml constraints.txt | .venv/bin/pip
	@echo "Installing Loops into .venv (about a minute; downloads packages) ..." >&2
	@$(INSTALL) -e . >&2
	@touch $@

.venv/installed-for-tests: pyproject.toml constraints.txt | .venv/bin/pip
	@echo "Installing Loops and its tests into .venv (about a minute; downloads packages) ..." >&2
	@$(INSTALL) -e '.[test]' >&2
	@touch .venv/installed $@

.venv/bin/pip:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c '$(NEW_ENOUGH)' || { \
		echo "Loops needs Python 3.11 or newer: $(if $(PYTHON),$(PYTHON) is not,none is on the PATH)." >&2; \
		echo "Install it (Debian, Ubuntu: apt install python3 python3-venv) or name it: make PYTHON=python3.12 ..." >&2; \
		exit 1; }
	@"$(PYTHON)" -m venv .venv >&2 || { \
		rm -rf .venv; \
		echo "This Python cannot make a virtual environment. Debian and Ubuntu: apt install python3-venv; then again." >&2; \
		exit 1; }

# Two commands: `make demo` and `make test`. Each makes .venv and installs from constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint mutants reports clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tabsynth needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/tabsynth demo

test: $(VENV)/.installed lint
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=10

mutants: $(VENV)/.installed  # each known privacy mistake, made in a copy: the tests must fail on it
	$(BIN)/python tests/mutants/gate.py

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build *.egg-info

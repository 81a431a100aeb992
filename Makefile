# Two commands: `make demo` and `make test`. Each makes .venv and installs from constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests and pages start the commands hundreds of times, so that it pays to keep compiled files.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-data test-spark test-plugins test-all fuzz lint docs pictures check-links bench mutants audit-dependencies build check-dist sbom clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tabsynth needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/tabsynth demo --overwrite

test: $(VENV)/.installed lint
	$(BIN)/python -m pytest -n 2 --dist worksteal --few-cases -m "not spark" --durations=10

test-all: $(VENV)/.installed lint  # every case of the tests with the mark `slow`
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=10

# The tests that need benchmark files (data/README.md), in the folder that TABSYNTH_DATA names.
test-data: $(VENV)/.installed
	@test -d "$$TABSYNTH_DATA" || { echo "make test-data needs benchmark files: set TABSYNTH_DATA to their folder; data/README.md says where to get them."; exit 1; }
	$(BIN)/python -m pytest -n 2 --dist worksteal -m data -rs

# Spark in local mode with two workers. It needs a Java runtime of version 17 or newer.
test-spark: $(VENV)/.installed
	@java -version >/dev/null 2>&1 || { echo "make test-spark needs a Java runtime of version 17 or newer: apt-get install openjdk-17-jre-headless, or one from https://adoptium.net with JAVA_HOME and PATH set."; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark]'
	$(BIN)/python -m pytest -n 0 -m spark -rs --few-cases tests/tables/test_spark.py

# Plug-ins against the real packages, each in an environment of its own under build/plugins (about 5 GB, ten minutes).
test-plugins:
	$(PYTHON) tests/integrations/environments.py $(PLUGINS)

# Random search by the property tests: other examples in each run. A finding becomes a fixed example of its test.
fuzz: $(VENV)/.installed
	TABSYNTH_EXAMPLES=random $(BIN)/python -m pytest -n 2 --dist worksteal -m hypothesis

mutants: $(VENV)/.installed  # each known privacy mistake, made in a copy: the tests must fail on it
	$(BIN)/python tests/mutants/gate.py

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation site, from docs/, the reports and the docstrings; build/docs/index.html is its first page. A warning is an error.
docs: $(VENV)/.docs
	rm -rf docs/reference/api
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -c docs -d build/doctrees . build/docs
	@echo "The site is in build/docs/index.html."

pictures: $(VENV)/.installed  # the picture of the README, and the screenshots of the repository, which need Chromium
	OMP_NUM_THREADS=1 $(BIN)/python docs/epsilon.py
	$(BIN)/python docs/tutorials/pictures/make.py

check-links: $(VENV)/.docs  # the links to other sites; asks the network
	$(BIN)/python -m sphinx -q -b linkcheck -D sphinx_gallery_conf.plot_gallery=0 -c docs -d build/doctrees-links . build/links

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

# Runs what reports/benchmark/config.toml names and its store lacks (half a day on one core), then writes its page.
bench: $(VENV)/.installed
	$(BIN)/python reports/benchmark/run.py

# Known vulnerabilities of what constraints.txt pins; asks the network, and fails where it is not answered.
audit-dependencies:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	build/audit/bin/pip-audit --strict --no-deps --disable-pip -r constraints.txt

# The wheel and the source distribution in build/dist, built twice: the bytes must be the same.
build: $(VENV)/.installed
	$(BIN)/python tests/release/make_dist.py

build/release/.installed:
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --quiet --disable-pip-version-check 'twine>=6' 'cyclonedx-bom>=7'
	touch $@

check-dist: build build/release/.installed  # metadata and long description, as a package index reads them
	build/release/bin/twine check --strict build/dist/*.whl build/dist/*.tar.gz

# The software bill of materials (CycloneDX) of what constraints.txt pins, checked against its schema.
sbom: build/release/.installed
	mkdir -p build/dist
	build/release/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type library --output-reproducible --output-file build/dist/tabsynth.cdx.json constraints.txt

clean:
	rm -rf $(VENV) build docs/examples docs/reference/api *.egg-info

# Needs Python 3.11 or newer and make; everything else is installed into .venv, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
TOOLS := $(VENV)/.tools-installed
# The lock files are complete, so nothing is resolved again. uv takes seconds where pip takes a
# minute; pip stands behind it, because a machine may have told only pip where packages come from.
# Compiled at once: a service may not be allowed to write beside its packages.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --compile-bytecode
with_uv_or_pip = $(UV) $(1) || { echo "uv could not install this; pip does …"; $(PIP) $(1); }

.PHONY: install run test torture check format bench costs lock clean

install: $(RUNTIME)  ## everything the command tollway needs, into .venv
	@echo "Installed: $(BIN)/tollway --help"

run: $(RUNTIME)  ## serve the demo world on 127.0.0.1:8080
	@mkdir -p data
	@$(BIN)/tollway serve --demo --database sqlite:///data/demo.db

test: $(TOOLS)  ## the whole test suite: three processes, since tests wait as much as they work
	@$(BIN)/python -m pytest --numprocesses 3

torture: $(TOOLS)  ## the long campaigns of tests/torture
	@$(BIN)/python -m pytest -m torture tests/torture

check: $(TOOLS)  ## formatting, lint, types, import direction
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(TOOLS)  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(RUNTIME)  ## the whole paid call beside a bare application
	$(BIN)/python bench/paid_call.py

costs: $(TOOLS)  ## what a paid call costs the database, on both engines
	$(BIN)/python -m bench.database_cost

lock: $(TOOLS)  ## choose the newest versions that fit pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
	  pyproject.toml requirements/build.in --output-file requirements/runtime.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
	  pyproject.toml requirements/build.in --group dev --constraint requirements/runtime.lock \
	  --overrides requirements/overrides.txt \
	  --output-file requirements/tools.lock

clean:
	rm -rf $(VENV)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Tollway needs Python 3.11 or newer: set PYTHON=python3.11 or later.") if sys.version_info < (3, 11) else None'
	@echo "Setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV)

# Its lines of the lock are its own lock. Without it, pip installs everything.
$(BIN)/uv: $(BIN)/python requirements/tools.lock
	@awk '/^[^ #]/ { mine = /^uv==/ } mine' requirements/tools.lock > $(VENV)/uv.lock
	@$(PIP) --only-binary :all: --require-hashes -r $(VENV)/uv.lock && touch $@ || true

$(RUNTIME): $(BIN)/uv requirements/runtime.lock pyproject.toml
	@$(call with_uv_or_pip,--require-hashes -r requirements/runtime.lock)
	@$(call with_uv_or_pip,--no-build-isolation --editable .)
	@touch $@

$(TOOLS): $(RUNTIME) requirements/tools.lock
	@echo "Installing the tools for tests and checks …"
	@$(call with_uv_or_pip,--require-hashes -r requirements/tools.lock)
	@touch $@

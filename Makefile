# Needs Python 3.11 or newer and make; everything else is installed into .venv, once.
# Which one is explained in the script; another one: make install PYTHON=python3.13.
PYTHON ?= $(shell python3 requirements/choose_python.py || echo python3)
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
AGENTS := $(VENV)/.agents-installed
TOOLS := $(VENV)/.tools-installed
BENCH_TOOLS := $(VENV)/.bench-installed
# How long `make bench` and `make growth` measure: full or quick.
BENCH ?= full
# In how many processes tests run: they wait as much as they compute.
TEST_PROCESSES ?= 6
# The lock files are complete, so nothing is resolved again. uv takes seconds where pip takes a
# minute; pip is the fallback, because a machine may have its package index configured for pip only.
# Bytecode is compiled on install: a service may not be allowed to write beside its packages. Of the
# tools only a part is ever loaded, and is compiled then.
# Installing pip into .venv takes longer than all packages, so it is done only if it is needed.
PIP_INSTALL := install --quiet --disable-pip-version-check --no-deps
PIP := $(BIN)/python -m ensurepip > /dev/null && $(BIN)/python -m pip $(PIP_INSTALL)
COMPILE := --compile-bytecode
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps $(COMPILE)
UV_LOCKED := --only-binary :all: --require-hashes -r $(VENV)/uv.lock
NO_PACKAGES := "The packages could not be installed, as said above. Is there a network? \
If packages come from an index of your own, name it: PIP_INDEX_URL=https://… make …"
with_uv_or_pip = $(UV) $(1) || { echo "uv could not install this; trying pip …"; $(PIP) $(1); }
needed_with_uv_or_pip = $(with_uv_or_pip) || { echo $(NO_PACKAGES) >&2; false; }

.PHONY: help install agents run test retest coverage mutation torture check format sdk pictures bench growth costs sbom vulnerabilities lock clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(RUNTIME)  ## install what the command tollway needs into .venv
	@echo "Installed: $(BIN)/tollway --help"

agents: $(AGENTS)  ## install also what /mcp and `tollway mcp` need
	@test -e $(AGENTS)

run: $(AGENTS)  ## serve the demo world on 127.0.0.1:8080
	@mkdir -p data
	@$(BIN)/tollway serve --demo --database sqlite:///data/demo.db

# Without bytecode, each of the processes would compile all tests again in every run.
test: $(TOOLS)  ## run the test suite
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES)

# A run that broke off before any test failed has nothing to repeat, and fails here too.
retest: $(TOOLS)  ## run what failed in the last test run once more, one after the other
	@echo "Once more, one after the other. A test that passes now is unstable, and must be fixed:"
	@$(BIN)/python -m pytest --last-failed --last-failed-no-failures none -v

# Every branch of what charges must be reached, and 95 % of all others.
# Gateways run in other folders, and their data must come together here.
coverage: export COVERAGE_FILE = $(CURDIR)/.coverage
coverage: $(TOOLS)  ## run the test suite and print the lines and branches it does not reach
	@rm -f .coverage .coverage.*
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m coverage run -m pytest --numprocesses $(TEST_PROCESSES); status=$$?; \
	  $(BIN)/python -m coverage combine --quiet || status=1; \
	  $(BIN)/python -m coverage report --omit '*/pipeline/*,*/ledger/*' --fail-under 95 || status=1; \
	  $(BIN)/python -m coverage report --include '*/pipeline/*,*/ledger/*' --fail-under 100 || status=1; \
	  exit $$status

# How many: make mutation MUTANTS="--sample 100", or modules as ledger/holds.py.
mutation: $(TOOLS)  ## put faults into the code that charges, and print those that no test notices
	@$(BIN)/python -m tests.support.mutation $(MUTANTS)

torture: $(TOOLS)  ## run the long campaigns of tests/torture
	@$(BIN)/python -m pytest -m torture tests/torture

check: $(TOOLS)  ## check formatting, lint rules, types and import direction
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(TOOLS)  ## format the code and apply the fixes that ruff knows
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sdk: $(TOOLS)  ## write the parts of the SDKs that come from the descriptors of the operations
	$(BIN)/python -m sdk.generator

pictures: $(TOOLS)  ## take the pictures of docs/pictures from the demo world; needs Chromium
	$(BIN)/python -m tests.support.pictures

bench: $(BENCH_TOOLS)  ## measure every operation beside its peers (11 min); needs wrk; BENCH=quick takes 4 min
	@$(BIN)/python -m bench.performance $(BENCH)

growth: $(TOOLS)  ## measure how costs grow with data and traffic; needs wrk; BENCH=quick for a short one
	@$(BIN)/python -m bench.growth $(BENCH)

costs: $(TOOLS)  ## measure what a paid call costs either database; needs wrk
	$(BIN)/python -m bench.database_cost

sbom: $(RUNTIME)  ## print what a gateway installs, with licences, as CycloneDX JSON
	@$(BIN)/python requirements/sbom.py

vulnerabilities: $(RUNTIME)  ## ask the OSV database about known holes in what a gateway installs
	@$(BIN)/python requirements/sbom.py --check

lock: $(TOOLS)  ## pin the newest versions that fit pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
	  pyproject.toml requirements/build.in --output-file requirements/runtime.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
	  pyproject.toml requirements/build.in --group dev --constraint requirements/runtime.lock \
	  --overrides requirements/overrides.txt \
	  --output-file requirements/tools.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
	  pyproject.toml --extra mcp --constraint requirements/tools.lock \
	  --output-file requirements/mcp.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
	  --group bench --constraint requirements/tools.lock --output-file requirements/bench.lock

clean:  ## delete .venv; the next command makes it again
	rm -rf $(VENV)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Tollway needs Python 3.11 or newer: set PYTHON=python3.11 or later.") if sys.version_info < (3, 11) else None'
	@echo "Setting up $(VENV) with $(PYTHON) …"
	@$(PYTHON) -m venv --without-pip $(VENV)

# The lines of uv in the lock file are its own lock file. Without uv, pip installs everything.
# Since version 22.3 the pip of the machine can install into .venv.
$(BIN)/uv: $(BIN)/python requirements/tools.lock
	@awk '/^[^ #]/ { mine = /^uv==/ } mine' requirements/tools.lock > $(VENV)/uv.lock
	@if $(PYTHON) -c 'import pip; assert [*map(int, pip.__version__.split(".")[:2])] >= [22, 3]' 2> /dev/null; \
	then $(PYTHON) -m pip --python $(BIN)/python $(PIP_INSTALL) $(UV_LOCKED); \
	else $(PIP) $(UV_LOCKED); fi && touch $@ || true

$(RUNTIME): $(BIN)/uv requirements/runtime.lock pyproject.toml
	@$(call needed_with_uv_or_pip,--require-hashes -r requirements/runtime.lock)
	@$(call needed_with_uv_or_pip,--no-build-isolation --editable .)
	@$(BIN)/python -m compileall -q src
	@touch $@

# For agents the demo world has /mcp; where its packages cannot be installed, it does without.
$(AGENTS): $(RUNTIME) requirements/mcp.lock
	@$(call with_uv_or_pip,--require-hashes -r requirements/mcp.lock) && touch $@ \
	  || echo "There is no /mcp: its packages could not be installed."

$(TOOLS): private COMPILE :=
$(TOOLS): $(RUNTIME) requirements/tools.lock
	@echo "Installing the tools for tests and checks …"
	@$(call needed_with_uv_or_pip,--require-hashes -r requirements/tools.lock)
	@touch $@

# Without them the bench leaves a peer out, and says so.
$(BENCH_TOOLS): $(TOOLS) requirements/bench.lock
	@$(call with_uv_or_pip,--require-hashes -r requirements/bench.lock) && touch $@ || true

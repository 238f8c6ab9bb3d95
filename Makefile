# The doors of the project. Each needs only Python 3.11+ and says what it does.
.DEFAULT_GOAL := help
.PHONY: help setup sides demo run dev test suite coverage check unit torture lakehouse bench mutants lint dictionary pictures lock clean

# Hundreds of interpreters start during the tests: whoever forbids bytecode has each compile anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN    := .venv/bin

help:        ## what each door does
	@grep -E '^[a-z]+: .*##|^[a-z]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## / - /' | awk -F' - ' '{printf "make %-11s %s\n", $$1, $$2}'

setup: .venv/ready ## a virtual environment in .venv: pinned, hashed, byte-compiled

.venv/ready: constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nightbook needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Say which to use: make PYTHON=/path/to/python3.12")'
	@echo "Setting up .venv (about a minute the first time) ..."
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r constraints.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "Ready: $(BIN)/nightbook"

# What only tests need, one virtual environment a file of tests/environments; tests skip, saying so, without it.
# Spark is half a gigabyte and of no use without Java; peers, mutants, coverage and the lakehouse belong to their own doors.
ICEBERG    := iceberg duckdb-iceberg spark-iceberg
LEFT_OUT   := peers mutants lakehouse coverage $(ICEBERG) $(if $(shell command -v java),,spark)
ALL_SIDES  := $(filter-out $(LEFT_OUT),$(patsubst tests/environments/%.txt,%,$(wildcard tests/environments/*.txt)))
# Those that only long tests need. The largest is begun first: two are made at a time.
LONG_SIDES := $(filter clients dg fuzz kubernetes spark,$(ALL_SIDES))
TEST_SIDES := engines $(filter-out engines $(LONG_SIDES),$(ALL_SIDES))

.side/%/ready: tests/environments/%.txt
	@echo "Setting up .side/$* ..."
	@$(PYTHON) -m venv --clear .side/$*
	@.side/$*/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-compile --require-hashes -r $<
	@touch $@

sides:       ## the side environments that tests use
	@$(call make_sides,$(TEST_SIDES))

# $(call make_sides,NAMES): two at a time, each that fails is left out; few of their modules are ever
# imported, so that they are compiled then and not here.
make_sides = $(MAKE) --no-print-directory --jobs 2 --keep-going $(1:%=.side/%/ready) || for side in $(1); do [ -f .side/$$side/ready ] || echo "Left out: tests that need .side/$$side will be skipped"; done

demo: setup  ## three simulated nights against the embedded sandbox: no key needed
	@$(BIN)/nightbook demo

run: setup   ## tonight's job, once, here
	@$(BIN)/nightbook run

dev: setup   ## the Dagster UI, daemon and schedule, on this machine only
	@$(BIN)/nightbook dev

# Types are checked by one process: the other core may test meanwhile.
test: setup sides ## format, lint, types and every test but the long ones
	@$(MAKE) --no-print-directory --jobs 2 lint suite

# In a clean clone one process compiles the tests while types are checked; each worker would alone.
suite: setup
	@[ -d .hypothesis ] || $(BIN)/python -m pytest -qq --collect-only > /dev/null || true
	@$(BIN)/python -m pytest -n 3 --dist worksteal

coverage: setup sides .side/coverage/ready ## the tests, and the share of the lines that they run
	@rm -f .coverage .coverage.*
	@PYTHONPATH="$$(echo .side/coverage/lib/python*/site-packages)" $(BIN)/python -m coverage run -m pytest -n 3 --dist worksteal
	@PYTHONPATH="$$(echo .side/coverage/lib/python*/site-packages)" $(BIN)/python -m coverage combine --quiet
	@PYTHONPATH="$$(echo .side/coverage/lib/python*/site-packages)" $(BIN)/python -m coverage report

# Tests that need no night: the house, the client, the sandbox, what is landed, who asks the warehouse.
UNIT := tests/house/test_architecture.py tests/house/test_layout.py tests/house/test_completeness.py \
        tests/pipelines/edge tests/pipelines/sandbox tests/pipelines/landing tests/pipelines/test_settings.py \
        tests/pipelines/records/test_hostile.py tests/pipelines/test_reference_count.py tests/warehouse/query

check: setup ## lint, types and unit tests: under a minute
	@$(MAKE) --no-print-directory --jobs 2 lint unit

unit: setup
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal $(UNIT)

# TESTS="tests/pipelines tests/assets" runs a part of them, as each shard of the nightly workflow does.
torture: setup sides ## the long tests, whole: two hours and more on two cores
	@$(call make_sides,$(LONG_SIDES))
	@$(BIN)/python -m pytest -n 2 --dist worksteal --torture $(TESTS)

# Azurite is a Node program. What cannot be set up here is left out, and its tests say so.
STORES := lakehouse image iceberg duckdb-iceberg engines $(if $(shell command -v npm),azurite) $(if $(shell command -v java),spark spark-iceberg)

lakehouse: setup ## nights on object stores and in open tables, on real servers
	@for side in $(STORES); do $(MAKE) --no-print-directory .side/$$side/ready || echo "Left out: tests that need .side/$$side will be skipped"; done
	@$(BIN)/python -m pytest --lakehouse

.side/azurite/ready: tests/environments/azurite/package-lock.json
	@echo "Setting up .side/azurite ..."
	@mkdir -p .side/azurite && cp tests/environments/azurite/*.json .side/azurite
	@cd .side/azurite && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

bench: setup .side/peers/ready ## what a night costs, against the peers
	@$(BIN)/python -m tests.performance

mutants: setup .side/mutants/ready ## small changes to the code that some test must notice: hours
	@$(BIN)/python -m tests.mutation

lint: setup  ## format, lint, types
	@$(BIN)/ruff format --check --quiet . || { echo "Formatting differs: run $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary

dictionary: setup ## write warehouse/README.md from the contract
	@$(BIN)/python -m warehouse.sql.dictionary.render

pictures: setup ## the pictures of the pages, from a demo; needs Chromium and LibreOffice
	@$(BIN)/python -m tests.house.pictures

lock: setup  ## resolve constraints.txt anew (needs uv)
	@{ sed "/^[^#]/Q" constraints.txt; uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --extra dev pyproject.toml; } > .constraints.aside && mv .constraints.aside constraints.txt

clean:       ## remove .venv and caches; your data stays
	@rm -rf .venv .side .mypy_cache .ruff_cache .pytest_cache *.egg-info

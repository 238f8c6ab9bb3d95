# The targets of the project. Each needs only Python 3.11+. `make help` describes them.
.DEFAULT_GOAL := help
.PHONY: help setup sides demo run dev test suite coverage check unit torture lakehouse bench mutants lint dictionary pictures lock clean

# Hundreds of interpreters start during the tests. Without bytecode files, each of them would compile
# every module.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
BIN    := .venv/bin

help:        ## list the targets
	@grep -E '^[a-z]+: .*##|^[a-z]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## / - /' | awk -F' - ' '{printf "make %-11s %s\n", $$1, $$2}'

setup: .venv/ready ## create the virtual environment .venv with pinned and hashed packages

.venv/ready: constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nightbook needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Choose a different one: make PYTHON=/path/to/python3.12")'
	@echo "Setting up .venv (about a minute the first time) ..."
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r constraints.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "Ready: $(BIN)/nightbook"

# Packages that only tests need: one virtual environment for each file in tests/environments. Without one, its tests
# are skipped with a message. Spark has half a gigabyte and needs Java. Peers, mutants, coverage and the lakehouse
# belong to their own targets.
ICEBERG    := iceberg duckdb-iceberg spark-iceberg
LEFT_OUT   := peers mutants lakehouse coverage $(ICEBERG) $(if $(shell command -v java),,spark)
ALL_SIDES  := $(filter-out $(LEFT_OUT),$(patsubst tests/environments/%.txt,%,$(wildcard tests/environments/*.txt)))
# Environments that only long tests need. Two are created at a time, and the largest one is first.
LONG_SIDES := $(filter clients dg fuzz kubernetes spark,$(ALL_SIDES))
TEST_SIDES := engines $(filter-out engines $(LONG_SIDES),$(ALL_SIDES))

.side/%/ready: tests/environments/%.txt
	@echo "Setting up .side/$* ..."
	@$(PYTHON) -m venv --clear .side/$*
	@.side/$*/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-compile --require-hashes -r $<
	@touch $@

sides:       ## create the side environments for tests
	@$(call make_sides,$(TEST_SIDES))

# $(call make_sides,NAMES) creates two environments at a time and leaves out those that fail. Only a few of their
# modules are ever imported, so they are compiled at that time and not here.
make_sides = $(MAKE) --no-print-directory --jobs 2 --keep-going $(1:%=.side/%/ready) || for side in $(1); do [ -f .side/$$side/ready ] || echo "Left out: tests that need .side/$$side will be skipped"; done

demo: setup  ## simulate three nights with the built-in sandbox, without a key
	@$(BIN)/nightbook demo

run: setup   ## read and publish tonight's book once
	@$(BIN)/nightbook run

dev: setup   ## start the Dagster UI, daemon and schedule, on this machine only
	@$(BIN)/nightbook dev

# One process checks types, so the other core can run tests.
test: setup sides ## check format, lint and types, and run all tests except the long ones
	@$(MAKE) --no-print-directory --jobs 2 lint suite

# In a clean clone, one process compiles the tests while types are checked. Otherwise each worker would compile them.
suite: setup
	@[ -d .hypothesis ] || $(BIN)/python -m pytest -qq --collect-only > /dev/null || true
	@$(BIN)/python -m pytest -n 3 --dist worksteal

coverage: setup sides .side/coverage/ready ## run the tests and show which lines they cover
	@rm -f .coverage .coverage.*
	@PYTHONPATH="$$(echo .side/coverage/lib/python*/site-packages)" $(BIN)/python -m coverage run -m pytest -n 3 --dist worksteal
	@PYTHONPATH="$$(echo .side/coverage/lib/python*/site-packages)" $(BIN)/python -m coverage combine --quiet
	@PYTHONPATH="$$(echo .side/coverage/lib/python*/site-packages)" $(BIN)/python -m coverage report

# Tests that need no published book, because building one takes seconds.
UNIT := tests/house/test_architecture.py tests/house/test_layout.py tests/house/test_completeness.py \
        tests/pipelines/edge tests/pipelines/sandbox tests/pipelines/landing tests/pipelines/test_settings.py \
        tests/pipelines/records/test_tolerant_reader_hostile.py tests/pipelines/flatten/test_reference.py

check: setup ## check lint and types, and run the unit tests (about a minute)
	@$(MAKE) --no-print-directory --jobs 2 lint unit

unit: setup
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal $(UNIT)

# TESTS="tests/pipelines tests/assets" runs a part of them, like each shard of the nightly workflow.
torture: setup sides ## run the long tests completely (more than two hours on two cores)
	@$(call make_sides,$(LONG_SIDES))
	@$(BIN)/python -m pytest -n 2 --dist worksteal --torture $(TESTS)

# Azurite is a Node program. Environments that cannot be created here are left out, and their tests say so.
STORES := lakehouse image iceberg duckdb-iceberg engines $(if $(shell command -v npm),azurite) $(if $(shell command -v java),spark spark-iceberg)

lakehouse: setup ## run the tests with object stores and Iceberg tables on real servers
	@for side in $(STORES); do $(MAKE) --no-print-directory .side/$$side/ready || echo "Left out: tests that need .side/$$side will be skipped"; done
	@$(BIN)/python -m pytest --lakehouse

.side/azurite/ready: tests/environments/azurite/package-lock.json
	@echo "Setting up .side/azurite ..."
	@mkdir -p .side/azurite && cp tests/environments/azurite/*.json .side/azurite
	@cd .side/azurite && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

bench: setup .side/peers/ready ## measure the cost of a night, compared with other tools
	@$(BIN)/python -m tests.tools.performance

mutants: setup .side/mutants/ready ## change the code in small ways that a test must notice (hours)
	@$(BIN)/python -m tests.tools.mutation

lint: setup  ## check format, lint and types
	@$(BIN)/ruff format --check --quiet . || { echo "Formatting differs: run $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary

dictionary: setup ## write warehouse/README.md from the contract
	@$(BIN)/python -m warehouse.sql.dictionary.render

pictures: setup ## take the pictures of the pages from a demo (needs Chromium and LibreOffice)
	@$(BIN)/python -m tests.house.pictures

lock: setup  ## resolve constraints.txt again (needs uv)
	@{ sed "/^[^#]/Q" constraints.txt; uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --group dev pyproject.toml; } > .constraints.aside && mv .constraints.aside constraints.txt

clean:       ## delete .venv and caches (your data stays)
	@rm -rf .venv .side .mypy_cache .ruff_cache .pytest_cache *.egg-info

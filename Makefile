# Every target makes .venv in this folder and installs what it needs; nothing else on the machine is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

# One thread per process: the tests and benchmarks run side by side, and numbers should not depend on a thread count.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
export MPLBACKEND = Agg
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Hundreds of processes start in the tests: each would compile the package again if none could keep what it compiled.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help demo test check lint types layers format bench campaign campaign-accounting campaign-audit campaign-certificates campaign-explorer campaign-inference campaign-ledger campaign-mechanisms campaign-sql campaign-sweeps campaign-tables campaign-theorems coverage-ledger pages pictures statements walks explorer golden-output clean

help:
	@echo "make demo      a table published privately, a denial, a privacy card; offline once installed"
	@echo "make test      every test, doctest and documentation snippet"
	@echo "make check     ruff, mypy --strict and the import layers"
	@echo "make format    let ruff rewrite what it can"
	@echo "make bench     the benchmarks, against peers in their own environment"
	@echo "make campaign  the long randomised sweeps (campaign-accounting, -audit, -certificates, -explorer, -inference, -ledger, -mechanisms, -sql, -sweeps, -tables, -theorems)"
	@echo "make coverage-ledger  branch coverage of the ledger from its own tests"
	@echo "make statements  write the index of theorems, the heads of their pages and the tables of cells and roles from the code"
	@echo "make walks     the files that four calls walk through, in order, and how many"
	@echo "make pages     run the commands of the documentation and write their output into the pages (ALL=1: also where it agrees)"
	@echo "make pictures  draw the pictures of the documentation again"
	@echo "make explorer  write docs/explorer.html; with GRID=1 also compute its grid of certified bounds again"
	@echo "make golden-output  write the golden output of every command again"
	@echo "make clean     remove .venv and caches"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The stamps are keyed on pyproject.toml: change a dependency and the next target installs it.
$(VENV)/.installed-demo: pyproject.toml | $(BIN)/python
	@echo "installing tallystick and what it needs into $(VENV), once; this downloads packages and may take minutes"
	$(BIN)/python -m pip install --quiet --editable ".[plots]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@ $(VENV)/.installed-demo

demo: $(VENV)/.installed-demo
	@$(BIN)/tallystick demo

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --durations=15 --quiet

check: lint types layers

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python docs/prose.py

types: $(VENV)/.installed-dev
	$(BIN)/mypy

layers: $(VENV)/.installed-dev
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/run.py

campaign: campaign-accounting campaign-audit campaign-certificates campaign-explorer campaign-inference campaign-ledger campaign-mechanisms campaign-sql campaign-sweeps campaign-tables campaign-theorems
	HYPOTHESIS_PROFILE=campaign $(BIN)/python -m pytest -n $(WORKERS) --durations=15 --quiet tests/laws

campaign-accounting: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/accounting/sweep.py --workers $(WORKERS)
	$(BIN)/python tests/referee/campaign.py $(if $(AFRESH),--afresh) --workers $(WORKERS) $(if $(MINUTES),--minutes $(MINUTES))

campaign-audit: $(VENV)/.installed-dev
	$(BIN)/python tests/campaigns/audit_twins.py
	$(BIN)/python tests/campaigns/audit_ours.py

campaign-certificates: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/certificates/campaign.py

campaign-explorer: $(VENV)/.installed-dev  # needs node
	$(BIN)/python tests/campaigns/explorer_points.py

campaign-inference: $(VENV)/.installed-dev
	$(BIN)/python tests/campaigns/inference_coverage.py

campaign-ledger: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/ledger/campaign.py
	$(BIN)/python tests/campaigns/hostile_files.py
	$(BIN)/python tests/campaigns/roles_walks.py
	$(BIN)/python tests/campaigns/roles_races.py

campaign-theorems: $(VENV)/.installed-dev
	$(BIN)/python tests/campaigns/theorem_sides.py

campaign-mechanisms: $(VENV)/.installed-dev
	$(BIN)/python tests/campaigns/mechanism_claims.py --afresh
	$(BIN)/python tests/campaigns/sampler_laws.py --seconds 60

campaign-sql: $(VENV)/.installed-dev
	$(BIN)/python tests/campaigns/sql_statements.py

campaign-sweeps: $(VENV)/.installed-dev  # every case of the tests of which make test runs a share
	CASES=all $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --durations=15 --quiet $$(grep -rl --include='test_*.py' 'from sweeps import' tests) tests/unit/ledger

campaign-tables: $(VENV)/.installed-dev
	$(BIN)/python tests/campaigns/table_coverage.py
	$(BIN)/python tests/campaigns/eighteen_questions.py
	$(BIN)/python tests/campaigns/link_flips.py
	$(BIN)/python tests/campaigns/below_flips.py
	$(BIN)/python tests/worlds/campaign.py --workers $(WORKERS) $(if $(POSTGRES),--postgres "$(POSTGRES)")

coverage-ledger: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet "coverage>=7.10"
	rm -rf $(VENV)/coverage-ledger && mkdir $(VENV)/coverage-ledger
	$(BIN)/python -m coverage run --rcfile benchmarks/ledger/coverage.ini -m pytest --quiet tests/unit/ledger tests/crash
	$(BIN)/python -m coverage combine --quiet --rcfile benchmarks/ledger/coverage.ini
	$(BIN)/python -m coverage report --rcfile benchmarks/ledger/coverage.ini

walks:  # installs nothing: with the environment if it is there, else with a Python that has the package's dependencies
	PYTHONPATH=src $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) docs/walks.py --files

statements: $(VENV)/.installed-dev
	$(BIN)/python docs/statements.py
	$(BIN)/python docs/cells.py
	$(BIN)/python docs/roles.py

explorer: $(VENV)/.installed-dev
	$(BIN)/python docs/explorer.py $(if $(GRID),--grid)

golden-output: $(VENV)/.installed-dev
	PYTHONPATH=tests $(BIN)/python -m contracts.golden_session

pages: $(VENV)/.installed-dev
	$(BIN)/python -W ignore tests/contracts/record_pages.py $(if $(ALL),--all)

pictures: $(VENV)/.installed-demo
	$(BIN)/python docs/images/draw.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis tallystick-demo

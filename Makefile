# make demo   set everything up and train the demo model
# make test   set everything up and run the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

help:
	@echo "make demo      set everything up, train a digits classifier, show what the compiler did"
	@echo "make test      set everything up and run the tests"
	@echo "make lint      ruff"
	@echo "make types     mypy --strict on ir, ops and passes"
	@echo "make mutants   swap rules and lowerings, and see that the derived tests notice"
	@echo "make notebooks the lectures of samples/lectures as notebooks, with their results"
	@echo "make bench     the benchmarks of benchmarks/kernels.py"
	@echo "make clean     remove the environment and caches"

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[dev,viz]"
	touch $(STAMP)

setup: $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m staticgraph demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal tests

lint: $(STAMP)
	$(BIN)/python -m ruff check staticgraph passes tests samples benchmarks

types: $(STAMP)
	$(BIN)/python -m mypy

mutants: $(STAMP)
	SG_CACHE=0 $(BIN)/python tests/mutants.py

notebooks: $(STAMP)
	$(BIN)/python samples/lectures/notebooks.py --execute

bench: $(STAMP)
	$(BIN)/python benchmarks/kernels.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

.PHONY: help setup demo test lint types mutants notebooks bench clean

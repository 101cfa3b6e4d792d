# The two main targets are `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

SOAK := tests/cli/test_closed_folders.py tests/cli/test_odd_names.py tests/cli/test_one_writer.py tests/inference/test_corrupt_photo.py \
  tests/inference/test_hostile_photos.py tests/inference/test_killed.py tests/inference/test_on_ray.py tests/io/test_opener.py tests/io/test_video.py tests/test_fuzz.py \
  tests/test_intruders.py tests/test_mutants.py tests/test_wheel.py tests/training/test_distributed.py tests/training/test_kills.py tests/web \
  tests/house/test_extras_alone.py

.PHONY: demo test wheel soak bench sbom lint format clean

demo: $(VENV)/.demo ## run on sample photos; train CASM and Baseline on bundled data, extract, evaluate; write a report
	$(BIN)/casmap demo --out demo

test: $(VENV)/.test $(VENV)/.browser $(VENV)/.ort-web ## lint, type checks and the full test suite
	$(MAKE) --no-print-directory lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4

wheel: $(VENV)/.made ## build dist/casmap-VERSION-py3-none-any.whl, with the shipped mapping and the web page
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/casmap-*.whl

soak: $(VENV)/.test $(VENV)/.browser $(VENV)/.ort-web ## the long tests in full: attacks, kills, fuzzing, load, Ray, two hosts, each extra in a fresh environment (hours)
	CASMAP_SOAK=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 $(SOAK)

bench: $(VENV)/.bench ## speed, as ratios, to docs/benchmarks.md; run nothing else meanwhile
	$(BIN)/python benchmarks/all.py

sbom: $(VENV)/.test ## all installed packages, as CycloneDX, in sbom.json
	$(PIP_INSTALL) cyclonedx-bom
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file sbom.json $(VENV)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo

# The marker file is written last: a virtual environment that was left incomplete is created again.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "casmap needs Python 3.11 or newer: use make PYTHON=python3.11"; exit 2; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -qq -y python3-venv && $(PYTHON) -m venv $(VENV); \
	  else echo "Python's venv module is missing: install it (Debian: apt-get install python3-venv) and try again."; exit 2; fi; }
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP_INSTALL) --editable '.[train,demo]'
	@touch $@

# The page of `casmap serve` is tested in Chromium, and training on two hosts in network namespaces (ip). Without these
# programs the tests are skipped.
$(VENV)/.browser: $(VENV)/.made
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null || true; fi; \
	  command -v chromium >/dev/null || echo "Chromium is missing: tests in a browser are skipped (Debian: apt-get install chromium)."; }
	@command -v ip >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get install -qq -y --no-install-recommends iproute2 >/dev/null || true; fi; \
	  command -v ip >/dev/null || echo "The command ip is missing: the test on two hosts is skipped (Debian: apt-get install iproute2)."; }
	@touch $@

# The page of `casmap page` is tested with ONNX Runtime for browsers, from npm. Without it the tests are skipped.
$(VENV)/.ort-web: $(VENV)/.test src/casmap/web/ort_web.py
	@$(BIN)/python -c 'from pathlib import Path; from casmap.web.ort_web import *; package = download(); unpack(package, "npm"); \
	  Path("$(VENV)", f"{PACKAGE}-{VERSION}.tgz").write_bytes(package)' 2>/dev/null || \
	  echo "onnxruntime-web cannot be downloaded from npm: tests of casmap page in a browser are skipped."
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP_INSTALL) --editable '.[test]'
	@touch $@ $(VENV)/.demo

# Without dependencies: grad-cam requires opencv-python, which would overwrite opencv-python-headless.
$(VENV)/.bench: $(VENV)/.test
	$(PIP_INSTALL) scikit-learn
	$(PIP_INSTALL) --no-deps grad-cam ttach
	@touch $@

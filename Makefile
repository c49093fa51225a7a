# Everything a fresh machine needs is Python 3.11 or newer and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= out

.PHONY: demo test quick check docs bench fuzz bounds sanitize clean

# Set up, run bundled CUDA kernels on the CPU: say what limits one, predict another with six models on two GPUs, draw
# the picture and write the report.
demo: $(VENV)/.runtime
	@mkdir -p $(OUT)
	$(BIN)/warplens predict examples/cuda/transpose.toml --gpu h200
	$(BIN)/warplens predict examples/cuda/spmv.toml --gpu h200 --gpu a100 \
	  --model roofline --model mwp-cwp --model gpumech --model mdm --model pipeline --model warplens --plot $(OUT)/spmv.png
	$(BIN)/warplens report examples/cuda/spmv.toml --gpu h200 --gpu a100 -o $(OUT)/report.html

# Set up and pass everything: lint, types and import direction while the tests run; docs, wheel and all tests.
test: $(VENV)/.dev
	PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/check & checks=$$!; \
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --everything --durations=30; tests=$$?; \
	wait $$checks && exit $$tests

# The default tier of tests.
quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2

check: $(VENV)/.dev
	PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/check

docs: $(VENV)/.dev
	$(BIN)/python -m mkdocs build --strict

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

# Mutate inputs of every kind for some hours; the corpus is kept in .fuzz, bad inputs in tests/fuzz/cases.
HOURS ?= 1
fuzz: $(VENV)/.dev
	cd tests && PYTHONPATH=. ../$(BIN)/python -m fuzz --hours $(HOURS)

# Tests of compiled kernels with every index checked. Code with checks is compiled and kept apart.
bounds: $(VENV)/.dev
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -n 2 --dist loadfile tests/analysis tests/simulators tests/traces \
	  tests/frontends/accelsim tests/frontends/sass tests/contract/test_recorded.py

# Tests of native code with guarded memory, and of the stand-in for CUDA with AddressSanitizer; needs a C++ compiler.
sanitize: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m pytest -p fencing tests/frontends/ptx tests/frontends/runtime

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plots]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml studies/pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -e studies
	@touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) $(OUT) site dist build

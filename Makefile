# mtp_tutorial: the targets that people and CI run. Needs make and Python 3.11 to 3.14, nothing else.
#
#   make lab                               set up .venv and open the first notebook
#   make test                              set up .venv, unit tests, every notebook under nbval
#   make test PYTHON=python3.13            another interpreter
#   make lab TORCH_SPEC=torch==2.13.0      install this torch first (any arguments `pip install` takes)
#   make lab VENV=/path/to/env             another place for the environment

PYTHON     ?= python3
VENV       ?= .venv
TORCH_SPEC ?=
# Where Linux without an NVIDIA driver takes torch from, unless TORCH_SPEC is given.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
# Test processes; the notebooks and the unit tests are spread over them by file.
JOBS       ?= 2
# More flags for pytest, e.g. PYTEST_FLAGS="-k verify -x"
PYTEST_FLAGS ?=
# More flags for JupyterLab, e.g. in a container LAB_FLAGS="--allow-root --no-browser --ip=0.0.0.0"
LAB_FLAGS ?=

PY     := $(VENV)/bin/python
STAMPS := $(VENV)/.mtp-stamps

# The notebooks choose their own matplotlib backend.
unexport MPLBACKEND
# Progress bars write to stderr, which nbval compares.
test-unit test-notebooks coverage notebooks: export TQDM_DISABLE = 1
# Two test processes with a thread for each core wait for one another: many times slower than one thread each.
test-unit test-notebooks: export OMP_NUM_THREADS = 1

.DEFAULT_GOAL := help
.PHONY: help lab venv venv-dev fetch doctor site test test-unit test-notebooks lint format notebooks \
        check-notebooks coverage clean clean-venv FORCE
.NOTPARALLEL:

help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## +/\t/' | awk -F '\t' '{printf "  make %-16s %s\n", $$1, $$2}'

# --- set-up -------------------------------------------------------------------------------------

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || \
	  { echo "mtp_tutorial needs Python 3.11 to 3.14; name one: make PYTHON=python3.13 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python could not make $(VENV). On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@mkdir -p $(@D) && touch $@

# Rewritten only when TORCH_SPEC is given and differs from the last one, so that a new one installs. Without TORCH_SPEC
# the first set-up chooses the build; a torch that is installed is left alone.
$(STAMPS)/torch-spec: FORCE | $(STAMPS)/venv
	@if [ ! -f $@ ] && [ -z "$(TORCH_SPEC)" ]; then \
	  sh tools/install_torch.sh "$(PY)" "torch>=2.9" "$(TORCH_CPU_INDEX)"; fi
	@test -f $@ || : > $@
	@if [ -n "$(TORCH_SPEC)" ] && [ "$$(cat $@)" != "$(TORCH_SPEC)" ]; then \
	  echo "$(PY) -m pip install $(TORCH_SPEC)"; \
	  echo "$(TORCH_SPEC)" | xargs $(PY) -m pip install && echo "$(TORCH_SPEC)" > $@; fi

$(STAMPS)/lab: pyproject.toml $(STAMPS)/torch-spec
	$(PY) -m pip install --editable .
	@touch $@

$(STAMPS)/dev: pyproject.toml $(STAMPS)/torch-spec
	$(PY) -m pip install --editable ".[dev]"
	@touch $(STAMPS)/lab $@

$(STAMPS)/site: pyproject.toml $(STAMPS)/torch-spec
	$(PY) -m pip install --editable ".[site]"
	@touch $(STAMPS)/lab $@

venv: $(STAMPS)/lab  ## create the environment and install the package
venv-dev: $(STAMPS)/dev  ## the same with the tools for tests

# --- use ----------------------------------------------------------------------------------------

# Copies are opened, so that running them leaves nothing for `git pull` to stumble over.
# default_url: without a browser, too, the address that is printed leads to the first notebook.
lab: $(STAMPS)/lab  ## open JupyterLab on the first notebook, in copies under my-notebooks/
	@$(PY) tools/working_copy.py
	$(PY) -m jupyterlab --LabApp.default_url=/lab/tree/00_start_here.ipynb $(LAB_FLAGS) my-notebooks/00_start_here.ipynb

doctor: $(STAMPS)/lab  ## report Python, torch, device, cached models and what to do about problems
	$(VENV)/bin/mtp-tutorial doctor

fetch: $(STAMPS)/lab  ## fetch the smollm2 model ahead of time (93 MB)
	$(VENV)/bin/mtp-tutorial fetch smollm2

site: $(STAMPS)/site  ## the course as static pages in site/, readable without network
	$(PY) tools/site.py

# --- tests --------------------------------------------------------------------------------------

test: test-unit test-notebooks  ## unit tests, then every notebook under nbval

# The model is fetched once before the tests, not by several of them at once; without network the
# tests that need it are skipped and say so.
test-unit: $(STAMPS)/dev  ## unit tests and doctests
	@$(VENV)/bin/mtp-tutorial fetch smollm2 || echo "smollm2 is not here: the tests that need it are skipped"
	$(PY) -m pytest -n $(JOBS) --dist loadfile --durations=10 $(PYTEST_FLAGS)

test-notebooks: $(STAMPS)/dev  ## every notebook, its stored text compared with what it prints now
	$(PY) -m pytest -n $(JOBS) --dist loadfile --durations=10 --nbval --nbval-current-env \
	  --nbval-cell-timeout=300 --nbval-sanitize-with=tests/nbval.cfg $(PYTEST_FLAGS) notebooks

coverage: $(STAMPS)/dev  ## unit tests with a coverage report
	$(PY) -m pytest -n $(JOBS) --dist loadfile --cov=mtp_tutorial --cov-report=term-missing $(PYTEST_FLAGS)

lint: $(STAMPS)/dev  ## ruff on .py and .ipynb, and the notebooks' hygiene
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) tools/notebooks.py --check

format: $(STAMPS)/dev  ## let ruff fix and format .py and .ipynb
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

notebooks: $(STAMPS)/dev  ## run every notebook afresh and store its clean outputs
	$(PY) tools/notebooks.py

check-notebooks: $(STAMPS)/dev  ## the notebooks' hygiene, nothing is run
	$(PY) tools/notebooks.py --check

# --- cleaning -----------------------------------------------------------------------------------

clean:  ## remove caches and build leftovers, keep the environment
	rm -rf build dist site *.egg-info .pytest_cache .ruff_cache .hypothesis .coverage htmlcov
	-find mtp_tutorial tests tools notebooks \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -prune -exec rm -rf {} + 2>/dev/null

clean-venv:  ## forget the set-up, so that the next command installs again
	rm -rf $(STAMPS)

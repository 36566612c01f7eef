# Every target does its own set-up. It needs Python >= 3.11, make and a package index.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 5
SLOWEST ?= 10
EXAMPLES ?= 300
EVENTS ?= 2000

# Some images stop Python from caching bytecode, which slows down the hundreds of test processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo run quick test fuzz slow client-js chaos cluster check bench overload emit-bench suites client client-bench freeze lock openapi settings images pictures clean docs docs-serve help rollout scaling pages-bench

help:            ## list the targets
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

demo: $(VENV)/.run-ready    ## everything up, a demo tenant, events flowing (Ctrl-C stops it)
	@$(BIN)/hookfast demo

run: $(VENV)/.run-ready     ## the service: Temporal, API and worker
	@$(BIN)/hookfast up

check: $(VENV)/.dev-ready   ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

quick: $(VENV)/.dev-ready   ## unit tests and one pass over SQLite, in about a minute
	HOOKFAST_EXAMPLES=10 $(BIN)/pytest -q -n 3 --dist worksteal -m "not slow and not heavy" -k "not postgresql" \
	  tests/unit tests/replay tests/integration/storage

test: $(VENV)/.dev-ready    ## the test suite, on SQLite and PostgreSQL (JOBS=5 SLOWEST=10; COSTS=1 measures CPU)
	$(if $(COSTS),$(BIN)/python -m tests.support.costs) $(BIN)/pytest -n $(JOBS) --dist worksteal --durations=$(SLOWEST) tests

fuzz: $(VENV)/.dev-ready    ## generated requests and values, new ones each time (EXAMPLES=300)
	HOOKFAST_FUZZ=$(EXAMPLES) $(BIN)/pytest -n $(JOBS) -o timeout=0 -o faulthandler_timeout=0 -m hypothesis tests
	HOOKFAST_FUZZ=$(EXAMPLES) $(BIN)/pytest -n $(JOBS) -o faulthandler_timeout=0 tests/integration/api/test_schemathesis.py

slow: $(VENV)/.dev-ready    ## outages of days, more kills, the guides; every test on the database that `make test` skips
	HOOKFAST_EXAMPLES=200 $(BIN)/pytest -n $(JOBS) --dist worksteal -o faulthandler_timeout=0 -m "slow and not alone" tests
	$(BIN)/pytest -o faulthandler_timeout=0 -m alone tests/integration/delivery tests/e2e
	$(BIN)/pytest -n 2 -m alone tests/integration/sender

client-js: $(VENV)/.dev-ready ## build, test and pack the client for TypeScript (needs node)
	cd packages/client-js && npm ci && npm run build && npm test && npm pack
	$(BIN)/pytest -m "slow or not slow" tests/integration/client_js

chaos: $(VENV)/.dev-ready   ## random kills and outages; checks that nothing is lost (EVENTS=2000 SEED= DATABASE= MODE= KILL= RATE= CALM= ORDERED=)
	$(BIN)/python -m bench.chaos --events $(EVENTS) $(if $(SEED),--seed $(SEED)) $(if $(DATABASE),--database $(DATABASE)) \
	  $(if $(MODE),--mode $(MODE)) $(if $(KILL),--kill $(KILL)) $(if $(RATE),--rate $(RATE)) $(if $(CALM),--calm $(CALM)) $(if $(ORDERED),--ordered $(ORDERED))

cluster: EVENTS = 4650
cluster: $(VENV)/.dev-ready ## PostgreSQL, two Temporals, APIs behind Caddy, workers: kills and restarts (EVENTS=4650 MODE= ONLY= OLD=; needs go, postgresql)
	@$(BIN)/python -m bench.cluster --events $(EVENTS) $(if $(MODE),--mode $(MODE)) $(if $(ONLY),--only "$(ONLY)") $(if $(OLD),--old $(OLD))

rollout: $(VENV)/.dev-ready ## this version rolled out and back under traffic, from and to the version before (OLD= EVENTS=2000 DATABASE= MODE= RATE=)
	$(BIN)/python -m bench.rollout --events $(EVENTS) $(if $(OLD),--old $(OLD)) $(if $(DATABASE),--database $(DATABASE)) \
	  $(if $(MODE),--mode $(MODE)) $(if $(RATE),--rate $(RATE))

bench: $(VENV)/.dev-ready   ## the product against a bare workflow, 20 minutes (PARTS=rates,latency,… DATABASE= ROUNDS= SECONDS= JSON=)
	@$(BIN)/python -m bench.delivery $(if $(PARTS),--only $(PARTS)) $(if $(DATABASE),--database $(DATABASE)) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(JSON),--json $(JSON))
	@$(if $(PARTS),:,$(BIN)/python -m bench.client)

overload: $(VENV)/.dev-ready ## delays of retries and of a person's resend under too many new events
	@$(BIN)/python -m bench.overload

scaling: $(VENV)/.dev-ready ## whether more workers deliver more, and what is the limit behind them (MODES= JSON= PICTURE=)
	@$(BIN)/python -m bench.scaling $(if $(MODES),--modes $(MODES)) $(if $(JSON),--json $(JSON)) $(if $(PICTURE),--picture $(PICTURE))

pages-bench: ROWS = 1000000
pages-bench: $(VENV)/.dev-ready ## pages, lists and figures at ROWS deliveries (ROWS=1000000 DATABASE=postgresql|sqlite|both KEEP=folder TIMES=30 JSON=)
	@$(BIN)/python -m bench.pages --rows $(ROWS) $(if $(DATABASE),--database $(DATABASE)) $(if $(KEEP),--keep $(KEEP)) \
	  $(if $(TIMES),--times $(TIMES)) $(if $(JSON),--json $(JSON))

emit-bench: $(VENV)/.dev-ready ## the API's cost of emitting, on SQLite and PostgreSQL
	$(BIN)/python -m bench.emit

suites: $(VENV)/.dev-ready  ## test suites that others wrote, run against our code (SUITES=folder)
	@$(BIN)/python -m bench.suites $(SUITES)

client: $(VENV)/.dev-ready  ## write the generated parts of packages/client
	$(BIN)/python packages/client/generate.py

client-bench: $(VENV)/.dev-ready ## emitting through the Python client, against bare HTTP
	$(BIN)/python -m bench.client

freeze: $(VENV)/.dev-ready ## write what a release freezes: its first migration, and the statements that it sends
	$(BIN)/python -m tests.upgrades.freezing
	$(BIN)/python -m tests.upgrades.recording

openapi: $(VENV)/.dev-ready ## write docs/openapi.json
	$(BIN)/hookfast openapi > docs/openapi.json

pictures: $(VENV)/.dev-ready ## take the pictures of README and guides from the running demo (needs chromium; GRAFANA=)
	$(if $(GRAFANA),GRAFANA=$(GRAFANA)) $(BIN)/python docs/pictures.py

settings: $(VENV)/.dev-ready ## write docs/settings.md
	$(BIN)/hookfast config --markdown > docs/settings.md

images: $(VENV)/.dev-ready  ## pin the images of others to the digests of their tags (CHECK=1 only compares)
	$(BIN)/python deploy/images.py $(if $(CHECK),--check)

docs: $(VENV)/.dev-ready    ## the documentation as a site, in var/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo "var/site/index.html"

docs-serve: $(VENV)/.dev-ready ## the documentation at http://127.0.0.1:8000, rebuilt on every change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --livereload

lock:            ## pin the newest versions, with hashes and without download addresses
	$(PYTHON) -m venv $(VENV)/lock && $(VENV)/lock/bin/pip -q install uv
	$(VENV)/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --extra build pyproject.toml -o requirements.txt
	$(VENV)/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --extra build --extra dev -c requirements.txt pyproject.toml -o requirements-dev.txt

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Hookfast needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Name another: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null \
	  || { echo "$(PYTHON) cannot create virtual environments. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Creating the virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# Two stamps, so that `make demo` does not wait for the test tools.
$(VENV)/.run-ready: $(VENV)/bin/python requirements.txt pyproject.toml
	@$(call install,what Hookfast needs to run,requirements.txt)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev-ready: $(VENV)/bin/python requirements-dev.txt $(VENV)/.run-ready
	@$(call install,what its tests need,requirements-dev.txt)
	@touch $@

# Counts packages while pip works, as the first installation takes a minute or two; ends as pip does.
define install
	echo "Installing $(1): $$(grep -c '==' $(2)) packages"; \
	{ $(BIN)/python -m pip install --progress-bar off --disable-pip-version-check --require-hashes -r $(2); echo "ended $$?"; } \
	  | awk '/^Collecting/ { printf "\r  %3d %-60.60s", ++n, $$2; fflush() } /^Installing/ { printf "\r  unpacking %-58s", "" } /^ended/ { code = $$2 } \
	         END { printf "\r%-70s\r", ""; exit code }'
endef

clean:           ## remove the virtual environment and the local data
	rm -rf $(VENV) var

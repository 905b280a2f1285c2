# Everything a fresh clone needs: a POSIX shell, make and Python 3.11 or newer.
#
#   make serve        set up, then run the server on ./offsetd-data, with its pages in a browser at
#                     http://127.0.0.1:7172 if that port is free; builds the transport
#                     offsetd-wire, too, if cargo is there; ARGS= has its options:
#                     make serve ARGS='--listen 127.0.0.1:7173 --set metrics.address='
#   make cluster      set up, then run three Kafka brokers and three nodes of offsetd on them, in
#                     ./offsetd-cluster (needs Java 17 and Maven); Ctrl-C ends all; ARGS= has its
#                     options: make cluster ARGS='--nodes 5 --folder elsewhere --node-port 7271'
#   make test         set up, then run the tests that need only Python and take little time;
#                     ARGS= goes to pytest, and what it names runs whole: make test ARGS=tests/sim
#   make test-rest    the tests that `make test` leaves out; ARGS= goes to pytest
#   make test-all     all tests; ARGS= goes to pytest
#   make nightly      all tests at their long settings, and every planted bug; ARGS= goes to pytest
#   make bounds       the tests of the kernels, with every load and store checked; ARGS= goes to pytest
#   make test-tools   programs in Go that tests run, most on deploy/; ARGS= is after how many
#                     seconds to stop, to go on at the next call
#   make dashboards   make deploy/grafana/*.json again, from deploy/dashboards/panels.py
#   make check        lint, types, import contracts, house rules, generated code up to date
#   make protos       generate the code of protos/ again
#   make protos-check fail if the code of protos/ is not what they generate, or if the contract breaks
#                     what a release understands (protos/releases)
#   make sync         generate the client for threads again, from the client for asyncio
#   make sync-check   fail if the client for threads is not what that generates
#   make bench        the benchmarks, as ratios within one run: make bench ARGS='load clean --rounds 5'
#   make bench-peers  the same work by Redis, etcd, ZooKeeper, PostgreSQL, Kafka and offsetd:
#                     make bench-peers ARGS='--works targets'
#   make wire         build the transport offsetd-wire and install it into .venv (needs cargo)
#   make wheel        dist/offsetd-….whl, to install elsewhere: pip install 'dist/offsetd-….whl[server]'
#   make clean        remove what `make` set up
#   make help         this list

.POSIX:
.PHONY: serve cluster test test-rest test-all bounds test-tools dashboards check protos protos-check sync sync-check bench bench-peers nightly wire wheel clean help

VENV = .venv
BIN = $(VENV)/bin
PROTOS_VENV = .venv-protos
CONSTRAINTS = .ci/constraints.txt
# What mypy looks at.
PACKAGES = storage coordinator clients pipeline transport benchmarks/peers
PYTEST = $(BIN)/python -m pytest
# One worker a core; a file stays with one worker, so that what its tests share is made once. The
# files begin in the order that tests/conftest.py gives them, not by how many tests they have.
PARALLEL = -n auto --dist loadfile --no-loadscope-reorder

serve: $(VENV)/.server $(VENV)/.wire
	@web=; [ ! -x $(BIN)/uvicorn ] || web=--web; exec $(BIN)/offsetd serve $$web $(ARGS)

cluster: $(VENV)/.cluster
	@exec $(BIN)/python -m deploy.cluster $(ARGS)

test: $(VENV)/.test
	$(PYTEST) $(PARALLEL) --part=short $(ARGS)

test-rest: $(VENV)/.test
	$(PYTEST) $(PARALLEL) --part=rest $(ARGS)

test-all: $(VENV)/.test
	$(PYTEST) $(PARALLEL) $(ARGS)

bounds: $(VENV)/.test
	NUMBA_BOUNDSCHECK=1 $(PYTEST) $(PARALLEL) -q -m kernel tests/unit tests/property $(ARGS)

test-tools: $(VENV)/.test
	@.ci/venv $(VENV) $(CONSTRAINTS) --group deployment
	@.ci/test_tools $(ARGS)

dashboards: $(VENV)/.test
	@$(BIN)/python -m deploy.dashboards

check: $(VENV)/.check protos-check sync-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PACKAGES)
	$(BIN)/lint-imports
	$(PYTEST) -q tests/tidy

bench: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(VENV)/.peers $(PROTOS_VENV)/.ready
	PYTHONPATH=tests $(BIN)/python -m benchmarks.peers $(ARGS)

nightly: $(VENV)/.test
	OFFSETD_NIGHTLY=1 $(PYTEST) $(PARALLEL) $(ARGS)

protos: $(PROTOS_VENV)/.ready
	@.ci/protos $(PROTOS_VENV) protos

protos-check: $(PROTOS_VENV)/.ready
	@.ci/protos $(PROTOS_VENV) --check protos

sync: $(VENV)/.check
	@$(BIN)/python .ci/sync_from_aio

sync-check: $(VENV)/.check
	@$(BIN)/python .ci/sync_from_aio --check

wire: $(VENV)/.server
	@.ci/wire $(VENV)
	@touch $(VENV)/.wire

# A server needs it only with `transport=wire`, so it serves without it, too. What was tried once
# is tried again when the transport changes, or by `make wire`.
$(VENV)/.wire: $(VENV)/.server .ci/wire transport/Cargo.lock transport/src/*.rs transport/offsetd_wire/*.py
	@.ci/wire $(VENV) --optional
	@touch $@

wheel: $(VENV)/.server
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

# The server itself compiles its kernels, after it has looked at its ports.
$(VENV)/.server: pyproject.toml $(CONSTRAINTS) .ci/venv .ci/install
	@.ci/venv $(VENV) $(CONSTRAINTS) -e '.[server,web]'
	@touch $@

$(VENV)/.cluster: $(VENV)/.server
	@.ci/venv $(VENV) $(CONSTRAINTS) -e '.[server,web,kafka]'
	@touch $@

$(VENV)/.test: pyproject.toml $(CONSTRAINTS) .ci/venv .ci/install
	@.ci/venv $(VENV) $(CONSTRAINTS) -e '.[server,kafka,otel,zookeeper,spark,oidc]' --group test --group browser
	@$(BIN)/offsetd kernels warm
	@touch $(VENV)/.server $(VENV)/.cluster $@

$(VENV)/.peers: $(VENV)/.test
	@.ci/venv $(VENV) $(CONSTRAINTS) --group peers
	@touch $@

$(VENV)/.check: $(VENV)/.test
	@.ci/venv $(VENV) $(CONSTRAINTS) --group check
	@touch $@

$(PROTOS_VENV)/.ready: .ci/venv .ci/install .ci/protos .ci/contract
	@.ci/venv $(PROTOS_VENV) /dev/null grpcio-tools==1.76.0 protobuf==6.33.6 googleapis-common-protos==1.76.0 buf-bin==1.75.0
	@touch $@

clean:
	rm -rf $(VENV) $(PROTOS_VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

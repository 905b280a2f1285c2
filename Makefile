# Everything a fresh clone needs: a POSIX shell, make and Python 3.11 or newer.
#
#   make serve    set up, then run the server on ./offsetd-data; with other options:
#                 make serve ARGS='--listen 127.0.0.1:7172 --set metrics.address='
#   make test     set up, then run the tests
#   make bounds   the tests of the kernels, with every load and store checked
#   make check    lint, types, import contracts, house rules, generated code up to date
#   make protos   generate the code of protos/ again
#   make sync     make the client for threads again, from that for asyncio
#   make bench    the benchmarks, as ratios within one run
#   make bench-peers    the same work by Redis, etcd, ZooKeeper, PostgreSQL, Kafka and offsetd
#   make nightly  the tests at their long settings, and every planted bug
#   make wheel    dist/offsetd-….whl, to install elsewhere: pip install 'dist/offsetd-….whl[server]'

.POSIX:
.PHONY: serve test bounds check protos protos-check sync sync-check bench bench-peers nightly wheel clean help

VENV = .venv
BIN = $(VENV)/bin
PROTOS_VENV = .venv-protos
CONSTRAINTS = .ci/constraints.txt
# What mypy looks at.
PACKAGES = storage coordinator clients pipeline benchmarks/peers
PYTEST = $(BIN)/python -m pytest
# One worker a core; a file stays with one worker, so that what its tests share is made once. The
# files are begun in the order of tests/slow_files.py, not by how many tests they have.
PARALLEL = -n auto --dist loadfile --no-loadscope-reorder
KERNEL_TESTS = tests/unit/storage/test_scan.py tests/unit/storage/test_segment_scan.py \
	tests/unit/storage/test_byte_order.py tests/unit/storage/test_crc32c.py \
	tests/unit/storage/test_encode.py tests/unit/storage/test_decode.py \
	tests/unit/storage/test_record_batch.py tests/unit/coordinator/test_offset_table.py \
	tests/unit/coordinator/test_shard.py tests/unit/coordinator/test_commit_wire.py \
	tests/unit/coordinator/test_commit_runs.py \
	tests/unit/coordinator/test_fetch_answer.py tests/unit/coordinator/test_fetch_parser.py \
	tests/unit/coordinator/test_commit_rules.py tests/property/test_unchanged_commits.py \
	tests/unit/coordinator/test_deletion.py tests/unit/coordinator/test_tombstones.py \
	tests/unit/coordinator/test_replayed_state.py tests/property/test_shard_replay.py \
	tests/unit/coordinator/test_expiry_sweep.py tests/unit/coordinator/test_put_batches.py \
	tests/unit/coordinator/test_keyed_hash.py tests/unit/coordinator/test_slots.py \
	tests/unit/storage/test_utf8.py tests/unit/coordinator/test_plain_records.py \
	tests/unit/storage/cleaner/test_keep.py tests/unit/storage/cleaner/test_offset_map.py \
	tests/unit/storage/cleaner/test_clean.py tests/property/test_cleaned_records.py \
	tests/unit/pipeline/test_segments.py tests/property/test_folder_tables.py

serve: $(VENV)/.server
	@exec $(BIN)/offsetd serve $(ARGS)

test: $(VENV)/.test
	$(PYTEST) $(PARALLEL) $(ARGS)

bounds: $(VENV)/.test
	NUMBA_BOUNDSCHECK=1 $(PYTEST) $(PARALLEL) -q $(KERNEL_TESTS)

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

wheel: $(VENV)/.server
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

# The server itself compiles its kernels, after it has looked at its ports.
$(VENV)/.server: pyproject.toml $(CONSTRAINTS) .ci/venv .ci/install
	@.ci/venv $(VENV) $(CONSTRAINTS) -e '.[server]'
	@touch $@

$(VENV)/.test: pyproject.toml $(CONSTRAINTS) .ci/venv .ci/install
	@.ci/venv $(VENV) $(CONSTRAINTS) -e '.[server,kafka,zookeeper,spark]' --group test
	@$(BIN)/offsetd kernels warm
	@touch $(VENV)/.server $@

$(VENV)/.peers: $(VENV)/.test
	@.ci/venv $(VENV) $(CONSTRAINTS) --group peers
	@touch $@

$(VENV)/.check: $(VENV)/.test
	@.ci/venv $(VENV) $(CONSTRAINTS) --group check
	@touch $@

$(PROTOS_VENV)/.ready: .ci/venv .ci/install .ci/protos
	@.ci/venv $(PROTOS_VENV) /dev/null grpcio-tools==1.76.0 protobuf==6.33.6 googleapis-common-protos==1.76.0
	@touch $@

clean:
	rm -rf $(VENV) $(PROTOS_VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

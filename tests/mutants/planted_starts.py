"""Planted bugs of what a start leaves out."""

from __future__ import annotations

from mutants.planted import Mutant

_SERVE_TESTS = "tests/unit/coordinator/commands/test_serve.py"
_MARK_TESTS = "tests/unit/storage/recovery/test_clean_shutdown_marker.py"
_MARK_CRASHES = "tests/sim/test_closed_marks.py"

_LINKED_TESTS = "tests/unit/storage/kernels/test_linking.py"

_NODE_TESTS = "tests/unit/coordinator/test_node.py"

START_MUTANTS = (
    Mutant(
        name="a server never links its kernels",
        where="offsetd_coordinator.commands.serve:_serve",
        replace="link_kernels()",
        by="# Before",
        caught_by=(
            "tests/fault/test_server_life.py"
            "::test_from_the_second_start_on_a_server_does_without_numba"
        ),
    ),
    Mutant(
        name="kernels are linked though a variable of Numba is set",
        where="offsetd_storage.kernels.linking:may_link",
        replace="    return False\nreturn _numba_version_file() is not None",
        by="    return True\nreturn _numba_version_file() is not None",
        caught_by=f"{_LINKED_TESTS}::test_nothing_is_linked_if_a_variable_of_numba_is_set",
    ),
    Mutant(
        name="kernels are kept that nobody has linked",
        where="offsetd_storage.kernels.linking:_is_linked_well",
        replace="return tried.returncode == 0",
        by="return tried is not None",
        caught_by=f"{_LINKED_TESTS}::test_what_does_not_link_is_never_kept",
    ),
    Mutant(
        name="kernels are linked that were made of other sources",
        where="offsetd_storage.kernels.linking:_key",
        replace="return code_key(_environment(), *packages)",
        by="return code_key(_environment(), *packages[:0])",
        caught_by=f"{_LINKED_TESTS}::test_what_was_made_of_other_sources_is_not_linked",
    ),
    Mutant(
        name="a call that comes while the server loads is refused at once",
        where="offsetd_coordinator.grpc.unary_calls:unary.call",
        replace="await load_ended(context.time_remaining())",
        by="",
        caught_by=_NODE_TESTS,
    ),
    Mutant(
        name="a stream of commits that comes while the server loads is refused at once",
        where="offsetd_coordinator.grpc.commit_stream:CommitStream.run",
        replace="await self._node.load_ended(self._context.time_remaining())",
        by="",
        caught_by=_NODE_TESTS,
    ),
    Mutant(
        name="calls that wait for a load are left waiting by a stop",
        where="offsetd_coordinator.node:Node.drain",
        replace="self.state = NodeState.DRAINING\nself._load_ended.set()",
        by="self.state = NodeState.DRAINING",
        caught_by=_NODE_TESTS,
    ),
    Mutant(
        name="a call waits for a load past its deadline",
        where="offsetd_coordinator.node:Node.load_ended",
        replace="seconds = min(seconds, remaining_seconds / 2)",
        by="seconds = max(seconds, remaining_seconds / 2)",
        caught_by=_NODE_TESTS,
    ),
    Mutant(
        name="a worker begins at once though it is to begin late",
        where="offsetd_storage.tasks.scheduler:SupervisedWorker.__init__",
        replace="interval_ms=None, initial_delay_ms=initial_delay_ms",
        by="interval_ms=None",
        caught_by="tests/unit/storage/tasks/test_scheduler.py",
    ),
    Mutant(
        name="the log loads Rich",
        where="offsetd_coordinator.observability.log_setup:",
        replace='with _as_if_not_installed("rich"):',
        by='with _as_if_not_installed("poor"):',
        caught_by=_SERVE_TESTS,
    ),
    Mutant(
        name="a kernel is loaded with all that compiling one needs",
        where="offsetd_storage.kernels.cache:KernelCache.load_overload",
        replace="return _compile_result._rebuild(",
        by="target_context.refresh()\nreturn _compile_result._rebuild(",
        caught_by="tests/unit/storage/kernels/test_registry.py",
    ),
    Mutant(
        name="a start passes over an option that it does not know",
        where="offsetd_coordinator.commands.serve:read_plain",
        replace="    given[name] = value\nelse:\n    return None",
        by="    given[name] = value",
        caught_by=_SERVE_TESTS,
    ),
    Mutant(
        name="an option takes the next one for its value",
        where="offsetd_coordinator.commands.serve:read_plain",
        replace='value.startswith("-") or',
        by="",
        caught_by=_SERVE_TESTS,
    ),
    Mutant(
        name="whatever has a mark counts as it was closed",
        where="offsetd_storage.recovery.clean_shutdown_marker:CleanShutdownMarker._has",
        replace="return self.digests.get(name) == _digest(files, paths)",
        by="return name in self.digests",
        caught_by=_MARK_CRASHES,
    ),
    Mutant(
        name="a log that is as long as it was closed counts as durable",
        where="offsetd_storage.recovery.survey:sync_logs",
        replace="if is_ours and mark.has_log(folder.files, path):",
        by="if is_ours:",
        caught_by=_MARK_CRASHES,
    ),
    Mutant(
        name="what lies beside a log is taken for durable with it",
        where="offsetd_storage.recovery.clean_shutdown_marker:write_marker",
        replace='(path for segment in log.segments for path in segment.paths(""))',
        by="[log.folder / each for each in segment_file_names(files.list_folder(log.folder))]",
        caught_by=_MARK_TESTS,
    ),
    Mutant(
        name="a journal is not read to its end though it was written since",
        where="offsetd_storage.recovery.survey:follow_journal",
        replace="if mark.has_journal(folder.files, folder.path) else None",
        by="if mark.digests else None",
        caught_by=_MARK_TESTS,
    ),
)

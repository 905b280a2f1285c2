"""Planted bugs of what a start leaves out."""

from __future__ import annotations

from mutants.planted import Mutant

_SERVE = "coordinator/offsetd_coordinator/commands/serve.py"
_SERVE_TESTS = "tests/unit/coordinator/test_commands_serve.py"
_MARK = "storage/offsetd_storage/recovery/clean_shutdown_marker.py"
_SURVEY = "storage/offsetd_storage/recovery/survey.py"
_MARK_TESTS = "tests/unit/storage/test_closed_mark.py"
_MARK_CRASHES = "tests/sim/test_closed_marks.py"

_LINKED = "storage/offsetd_storage/kernels/linked.py"
_LINKED_TESTS = "tests/unit/storage/test_linked_kernels.py"

_NODE_TESTS = "tests/unit/coordinator/test_node.py"

START_MUTANTS = (
    Mutant(
        name="a server never links its kernels",
        file=_SERVE,
        replace="    link_kernels()  # Before",
        by="    # Before",
        caught_by=(
            "tests/fault/test_server_life.py"
            "::test_from_the_second_start_on_a_server_does_without_numba"
        ),
    ),
    Mutant(
        name="kernels are linked though somebody has configured Numba",
        file=_LINKED,
        replace="        return False\n    return _numba_version_file() is not None\n",
        by="        return True\n    return _numba_version_file() is not None\n",
        caught_by=f"{_LINKED_TESTS}::test_who_has_configured_numba_gets_numbas",
    ),
    Mutant(
        name="kernels are kept that nobody has linked",
        file=_LINKED,
        replace="    return tried.returncode == 0\n",
        by="    return tried is not None\n",
        caught_by=f"{_LINKED_TESTS}::test_what_does_not_link_is_never_kept",
    ),
    Mutant(
        name="kernels are linked that were made of other sources",
        file=_LINKED,
        replace="    return code_key(_environment(), *packages)\n",
        by="    return code_key(_environment(), *packages[:0])\n",
        caught_by=f"{_LINKED_TESTS}::test_what_was_made_of_other_sources_is_not_linked",
    ),
    Mutant(
        name="a call that comes while the server loads is refused at once",
        file="coordinator/offsetd_coordinator/calls/unary_calls.py",
        replace="                await load_ended(context.time_remaining())\n",
        by="",
        caught_by=_NODE_TESTS,
    ),
    Mutant(
        name="a stream of commits that comes while the server loads is refused at once",
        file="coordinator/offsetd_coordinator/grpc/commit_stream.py",
        replace="            await self._node.load_ended(self._context.time_remaining())\n",
        by="",
        caught_by=_NODE_TESTS,
    ),
    Mutant(
        name="calls that wait for a load are left waiting by a stop",
        file="coordinator/offsetd_coordinator/node.py",
        replace="        self.state = NodeState.DRAINING\n        self._load_ended.set()\n",
        by="        self.state = NodeState.DRAINING\n",
        caught_by=_NODE_TESTS,
    ),
    Mutant(
        name="a call waits for a load past its deadline",
        file="coordinator/offsetd_coordinator/node.py",
        replace="            seconds = min(seconds, remaining_seconds / 2)\n",
        by="            seconds = max(seconds, remaining_seconds / 2)\n",
        caught_by=_NODE_TESTS,
    ),
    Mutant(
        name="a worker begins at once though it is to begin late",
        file="storage/offsetd_storage/tasks/scheduler.py",
        replace="interval_ms=None, initial_delay_ms=initial_delay_ms",
        by="interval_ms=None",
        caught_by="tests/unit/storage/test_scheduler.py",
    ),
    Mutant(
        name="the log loads Rich",
        file="coordinator/offsetd_coordinator/observability/log_setup.py",
        replace='with _as_if_not_installed("rich"):',
        by='with _as_if_not_installed("poor"):',
        caught_by=_SERVE_TESTS,
    ),
    Mutant(
        name="a kernel is loaded with all that compiling one needs",
        file="storage/offsetd_storage/kernels/cache.py",
        replace="        # Numba would first make ready to compile",
        by="        target_context.refresh()\n        # Numba would first make ready to compile",
        caught_by="tests/unit/storage/test_registry.py",
    ),
    Mutant(
        name="a start passes over an option that it does not know",
        file=_SERVE,
        replace="            given[name] = value\n        else:\n            return None\n",
        by="            given[name] = value\n",
        caught_by=_SERVE_TESTS,
    ),
    Mutant(
        name="an option takes the next one for its value",
        file=_SERVE,
        replace='value.startswith("-") or ',
        by="",
        caught_by=_SERVE_TESTS,
    ),
    Mutant(
        name="whatever has a mark counts as it was closed",
        file=_MARK,
        replace="            return self.digests.get(name) == _digest(files, paths)\n",
        by="            return name in self.digests\n",
        caught_by=_MARK_CRASHES,
    ),
    Mutant(
        name="a log that is as long as it was closed counts as durable",
        file=_SURVEY,
        replace="        if is_ours and mark.has_log(folder.files, path):\n",
        by="        if is_ours:\n",
        caught_by=_MARK_CRASHES,
    ),
    Mutant(
        name="what lies beside a log is taken for durable with it",
        file=_MARK,
        replace='(path for segment in log.segments for path in segment.paths(""))',
        by="[log.folder / each for each in segment_file_names(files.list_folder(log.folder))]",
        caught_by=_MARK_TESTS,
    ),
    Mutant(
        name="a journal is not read to its end though it was written since",
        file=_SURVEY,
        replace="if mark.has_journal(folder.files, folder.path) else None",
        by="if mark.digests else None",
        caught_by=_MARK_TESTS,
    ),
)

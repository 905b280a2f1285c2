"""Planted bugs of the command line: what it tells people, and what it does to their groups."""

from __future__ import annotations

from mutants.planted import Mutant

_CLI = "clients/offsetd_clients/cli"
_TESTS = "tests/unit/clients"

COMMAND_LINE_MUTANTS = (
    Mutant(
        name="a reset is executed unless it is dry",
        file="clients/offsetd_clients/cli/groups/group_reset.py",
        replace="            validate_only=not self.execute,\n",
        by="            validate_only=False,\n",
        caught_by=f"{_TESTS}/test_cli_group_reset.py",
    ),
    Mutant(
        name="the command that is told is not quoted",
        file="clients/offsetd_clients/cli/printing/dry_runs.py",
        replace="    return shlex.join([",
        by='    return " ".join([',
        caught_by=f"{_TESTS}/test_cli_group_reset.py",
    ),
    Mutant(
        name="the command that is told loses options that are given twice",
        file="clients/offsetd_clients/cli/printing/dry_runs.py",
        replace="    for text in _texts(value):\n",
        by="    for text in _texts(value)[:1]:\n",
        caught_by=f"{_TESTS}/test_cli_group_reset.py",
    ),
    Mutant(
        name="an offset ahead of the end has a lag below 0",
        file="clients/offsetd_clients/cli/groups/group_description.py",
        replace="return None if current is None or end is None else max(0, end - current)",
        by="return None if current is None or end is None else end - current",
        caught_by=f"{_TESTS}/test_cli_group_description.py",
    ),
    Mutant(
        name="what was reported goes before what Kafka tells",
        file="clients/offsetd_clients/cli/groups/group_description.py",
        replace="    if bounds is not None and bounds.latest is not None:\n",
        by="    if bounds is not None and not (committed and committed.end_offset):\n",
        caught_by=f"{_TESTS}/test_cli_group_description.py",
    ),
    Mutant(
        name="a file of all groups has no group in its lines",
        file="clients/offsetd_clients/cli/groups/group_reset.py",
        replace="is_one = len(groups.named) == 1\n",
        by="is_one = len(targets) == 1\n",
        caught_by=f"{_TESTS}/test_cli_group_reset.py",
    ),
    Mutant(
        name="all groups are changed without being told twice",
        file="clients/offsetd_clients/cli/arguments/group_choice.py",
        replace="        return dry_run or (self.all_groups and not execute)\n",
        by="        return dry_run\n",
        caught_by=f"{_TESTS}/test_cli_group_choice.py",
    ),
    Mutant(
        name="rows without a value come first",
        file="clients/offsetd_clients/cli/printing/row_order.py",
        replace="            found = known + unknown\n",
        by="            found = unknown + known\n",
        caught_by=f"{_TESTS}/test_cli_row_order.py",
    ),
    Mutant(
        name="groups that were refused are no failure",
        file=f"{_CLI}/each_group.py",
        replace="        code = EXIT_PARTLY if done else exit_code(failures[-1][1])\n",
        by="        code = 0 if done else exit_code(failures[-1][1])\n",
        caught_by=f"{_TESTS}/test_cli_group_description.py",
    ),
    Mutant(
        name="a watch does not see that its reader has left",
        file="clients/offsetd_clients/cli/printing/terminal.py",
        replace="                self._stdout_is_gone = True\n                call()\n",
        by="                self._stdout_is_gone = True\n",
        caught_by="tests/interop/test_cli_streams.py",
    ),
    Mutant(
        name="Ctrl-C is taken for an end of the command within a row",
        file="clients/offsetd_clients/cli/groups/group_history.py",
        replace="        watching.cancel()\n\n    before =",
        by="        raise KeyboardInterrupt\n\n    before =",
        caught_by="tests/interop/test_cli_streams.py",
    ),
    Mutant(
        name="groups in use are refused also where a reset does not concern them",
        file="clients/offsetd_clients/cli/groups/group_reset.py",
        replace="            if not self.topics or self.partitions:\n",
        by="            if True:\n",
        caught_by="tests/promises/test_resetting_a_group.py",
    ),
    Mutant(
        name="a reset to a time does not tell what it leaves",
        file="clients/offsetd_clients/cli/groups/group_reset.py",
        replace="        if left:\n",
        by="        if left and not execute and export:\n",
        caught_by="tests/promises/test_history_guide.py",
    ),
    Mutant(
        name="offsets of a misspelled group are deleted",
        file="clients/offsetd_clients/cli/groups/offset_deletion.py",
        replace="    if not deleted.partitions:\n",
        by="    if deleted.partitions:\n",
        caught_by="tests/promises/test_command_line_reference.py",
    ),
)

"""Planted bugs of the command line: what it tells people, and what it does to their groups."""

from __future__ import annotations

from mutants.planted import Mutant

_TESTS = "tests/unit/clients"

COMMAND_LINE_MUTANTS = (
    Mutant(
        name="a reset is executed unless it is dry",
        where="offsetd_clients.cli.groups.group_reset:Plan.carry_out",
        replace="validate_only=not self.execute,",
        by="validate_only=False,",
        caught_by=f"{_TESTS}/cli/groups/test_group_reset.py",
    ),
    Mutant(
        name="the command that is told is not quoted",
        where="offsetd_clients.cli.printing.dry_runs:executing_line",
        replace="return shlex.join([",
        by='return " ".join([',
        caught_by=f"{_TESTS}/cli/groups/test_group_reset.py",
    ),
    Mutant(
        name="the command that is told loses options that are given twice",
        where="offsetd_clients.cli.printing.dry_runs:_option",
        replace="for text in _texts(value):",
        by="for text in _texts(value)[:1]:",
        caught_by=f"{_TESTS}/cli/groups/test_group_reset.py",
    ),
    Mutant(
        name="an offset ahead of the end has a lag below 0",
        where="offsetd_clients.cli.groups.group_description:_lag",
        replace="return None if current is None or end is None else max(0, end - current)",
        by="return None if current is None or end is None else end - current",
        caught_by=f"{_TESTS}/cli/groups/test_group_description.py",
    ),
    Mutant(
        name="what was reported goes before what Kafka tells",
        where="offsetd_clients.cli.groups.group_description:_end",
        replace="if bounds is not None and bounds.latest is not None:",
        by="if bounds is not None and not (committed and committed.end_offset):",
        caught_by=f"{_TESTS}/cli/groups/test_group_description.py",
    ),
    Mutant(
        name="a file of all groups has no group in its lines",
        where="offsetd_clients.cli.groups.group_reset:register.reset",
        replace="is_one = len(groups.named) == 1",
        by="is_one = len(targets) == 1",
        caught_by=f"{_TESTS}/cli/groups/test_group_reset.py",
    ),
    Mutant(
        name="all groups are changed without being told twice",
        where="offsetd_clients.cli.arguments.group_choice:GroupChoice.is_only_shown",
        replace="return dry_run or (self.all_groups and not execute)",
        by="return dry_run",
        caught_by=f"{_TESTS}/cli/arguments/test_group_choice.py",
    ),
    Mutant(
        name="rows without a value come first",
        where="offsetd_clients.cli.printing.row_order:RowOrder.ordered",
        replace="found = known + unknown",
        by="found = unknown + known",
        caught_by=f"{_TESTS}/cli/printing/test_row_order.py",
    ),
    Mutant(
        name="groups that were refused are no failure",
        where="offsetd_clients.cli.each_group:report_failures",
        replace="code = EXIT_PARTLY if done else exit_code(failures[-1][1])",
        by="code = 0 if done else exit_code(failures[-1][1])",
        caught_by=f"{_TESTS}/cli/groups/test_group_description.py",
    ),
    Mutant(
        name="a watch does not see that its reader has left",
        where="offsetd_clients.cli.printing.terminal:Terminal.when_reader_leaves.wait",
        replace="self._stdout_is_gone = True\ncall()",
        by="self._stdout_is_gone = True",
        caught_by="tests/interop/test_cli_streams.py",
    ),
    Mutant(
        name="Ctrl-C is taken for an end of the command within a row",
        where="offsetd_clients.cli.groups.group_history:_ended_by_ctrl_c",
        replace="    watching.cancel()\n\nbefore =",
        by="    raise KeyboardInterrupt\n\nbefore =",
        caught_by="tests/interop/test_cli_streams.py",
    ),
    Mutant(
        name="groups in use are refused also where a reset does not concern them",
        where="offsetd_clients.cli.groups.group_reset:Plan.carry_out_where_there",
        replace="if not self.topics or self.partitions:",
        by="if True:",
        caught_by="tests/promises/test_resetting_a_group.py",
    ),
    Mutant(
        name="a reset to a time does not tell what it leaves",
        where="offsetd_clients.cli.groups.group_reset:carry_out",
        replace="if left:",
        by="if left and not execute and export:",
        caught_by="tests/promises/test_history_guide.py",
    ),
    Mutant(
        name="offsets of a misspelled group are deleted",
        where="offsetd_clients.cli.groups.offset_deletion:delete_offsets_of",
        replace="if not deleted.partitions:",
        by="if deleted.partitions:",
        caught_by="tests/promises/test_command_line_reference.py",
    ),
)

"""Output of commands that process one partition after the other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from offsetd_storage.views.folder_view import LogView

from offsetd_coordinator.commands.terminal import PARTLY_DONE, ProgressReport, Terminal
from offsetd_coordinator.offline.partition_outcomes import PartitionOutcome

_DoneT = TypeVar("_DoneT")
_Outcome = PartitionOutcome[_DoneT]


def printed(
    terminal: Terminal,
    columns: Sequence[str],
    outcomes: Iterator[_Outcome[_DoneT]],
    logs: Sequence[LogView],
    report: ProgressReport,
    row_of: Callable[[_DoneT], Mapping[str, object] | None],
) -> list[_Outcome[_DoneT]]:
    """Prints a row for each log, with the outcome or the problem, and returns all outcomes.

    An outcome for which `row_of` returns None has no row.
    """
    all_of_them: list[_Outcome[_DoneT]] = []

    def rows() -> Iterator[Mapping[str, object]]:
        for place, log in enumerate(logs):
            report(place, len(logs), log.folder.name)
            outcome = next(outcomes)
            all_of_them.append(outcome)
            row = None if outcome.done is None else row_of(outcome.done)
            if row is not None or outcome.problem is not None:
                partition = outcome.topic_partition.partition
                yield {"partition": partition, "problem": outcome.problem, **(row or {})}

    pending = rows()
    droppable = [column for column in columns if column.startswith("segments_")]
    terminal.rows(columns, pending, droppable=droppable)
    for _ in pending:  # If the reader of stdout has ended, the work is still completed.
        pass
    return all_of_them


def fail_for_problems(terminal: Terminal, outcomes: Sequence[_Outcome[_DoneT]], what: str) -> None:
    """Fails the command if there were problems: prints `what` and the partitions' names."""
    problems = [each for each in outcomes if each.problem is not None]
    if problems:
        names = ", ".join(each.topic_partition.folder_name for each in problems)
        terminal.fail(f"{what}: {names}", code=PARTLY_DONE if len(problems) < len(outcomes) else 1)


def counted(partitions: int) -> str:
    """A count as text: `1 partition`, `2 partitions`."""
    return f"{partitions} {'partition' if partitions == 1 else 'partitions'}"

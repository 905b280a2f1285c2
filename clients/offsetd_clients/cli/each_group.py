"""One call for each of several groups."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from offsetd_clients.cli.connection import exit_code, explain
from offsetd_clients.cli.printing.terminal import EXIT_PARTLY, Terminal, named_id
from offsetd_clients.errors import (
    GroupNotFound,
    GroupRefused,
    HistoryCompacted,
    OffsetdError,
    OffsetsDamaged,
    PartitionsRefused,
)

Answer = TypeVar("Answer")
# Errors that concern one group only.
OF_ONE_GROUP = (GroupNotFound, GroupRefused, HistoryCompacted, OffsetsDamaged, PartitionsRefused)


def each_group(
    group_ids: Iterable[str], call: Callable[[str], Answer]
) -> tuple[list[tuple[str, Answer]], list[tuple[str, OffsetdError]]]:
    """Returns answers and failures by group. The failure of one group does not stop the others.

    A failure that does not depend on the group (no server, for example) stops all further calls.
    """
    answers: list[tuple[str, Answer]] = []
    failures: list[tuple[str, OffsetdError]] = []
    for group_id in dict.fromkeys(group_ids):
        try:
            answers.append((group_id, call(group_id)))
        except OffsetdError as error:
            failures.append((group_id, error))
            if not isinstance(error, OF_ONE_GROUP):
                break
    return answers, failures


def report_failures(
    failures: Sequence[tuple[str, OffsetdError]],
    done: Sequence[object],
    address: str,
    terminal: Terminal,
) -> None:
    """Ends the command if there are failures: with exit code 3 if some groups succeeded."""
    if failures:
        lines = [f"{named_id(group_id)}: {explain(error, address)}" for group_id, error in failures]
        code = EXIT_PARTLY if done else exit_code(failures[-1][1])
        terminal.fail("\n".join(lines), code)

"""`offsetd size`: the disk, memory, cores and descriptors that a workload needs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from offsetd_coordinator.commands.terminal import WRONG_USE, Terminal

if TYPE_CHECKING:
    from offsetd_coordinator.configuration.server_settings import Settings
    from offsetd_coordinator.offline.sizing import Need

COLUMNS: Final = ("resource", "item", "amount", "unit", "why")
_COUNT_MAX: Final = 10**9
_DAY_MS: Final = 86_400_000
_HISTORY_DAYS_MAX: Final = 36_500
_UNITS: Final = {"disk": "bytes", "memory": "bytes", "cores": "cores", "descriptors": "files"}


GroupsOption = Annotated[
    int, typer.Option("--groups", min=0, max=_COUNT_MAX, metavar="N", help="Groups.")
]
PartitionsOption = Annotated[
    int,
    typer.Option(
        "--partitions", min=1, max=1_000_000, metavar="P", help="Partitions of each group."
    ),
]
_COMMITS_PER_SECOND_MAX: Final = 1e12
RateOption = Annotated[
    float,
    typer.Option(
        "--commits-per-second",
        min=0,
        max=_COMMITS_PER_SECOND_MAX,
        metavar="R",
        help="Commits of all groups together.",
    ),
]
OffsetsOption = Annotated[
    int | None,
    typer.Option("--offsets-per-commit", min=1, metavar="N", help="Default: all of the group."),
]
HistoryOption = Annotated[
    float | None,
    typer.Option(
        "--history-days",
        min=0,
        max=_HISTORY_DAYS_MAX,
        metavar="D",
        help="How long each commit is kept; default: history.ms.",
    ),
]
NoEndsOption = Annotated[
    bool, typer.Option("--no-end-offsets", help="Commits report no end offsets.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the server.")
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the command to `app`."""

    @app.command("size")
    def size(
        *,
        groups: GroupsOption,
        partitions: PartitionsOption,
        commits_per_second: RateOption,
        offsets_per_commit: OffsetsOption = None,
        history_days: HistoryOption = None,
        no_end_offsets: NoEndsOption = False,
        assignments: SetOption = None,
    ) -> None:
        """Estimate the disk, memory, cores and descriptors that a server needs.

        It asks no server. The constants were measured; docs/guides/sizing.md says how. Ids of
        groups and names of topics count as 20 bytes.

        Examples:
            offsetd size --groups 2000 --partitions 50 --commits-per-second 500
            offsetd size --groups 10 --partitions 4 --commits-per-second 2 -o json
        """
        # The help does not need these.
        from offsetd_coordinator.offline import sizing  # noqa: PLC0415

        settings = _settings(assignments or (), terminal)
        workload = sizing.Workload(
            groups=groups,
            partitions=partitions,
            commits_per_second=commits_per_second,
            offsets_per_commit=offsets_per_commit or partitions,
            history_days=settings.history_ms / _DAY_MS if history_days is None else history_days,
            reports_ends=not no_end_offsets,
        )
        rows = map(_row, sizing.needs(workload, settings))
        terminal.rows(COLUMNS, rows, droppable=("why",))
        busy = sizing.loop_share(workload)
        if busy > sizing.LOOP_SHARE_MAX:
            terminal.note(
                f"these commits need {busy:.1f} cores of the one thread that decides on commits:"
                " send several commits in a message, commit less often, or use several nodes"
            )


def _settings(assignments: Sequence[str], terminal: Terminal) -> "Settings":
    from offsetd_coordinator.configuration.settings_sources import (  # noqa: PLC0415
        SettingsError,
        load_settings,
    )

    try:
        return load_settings(assignments=assignments)
    except SettingsError as error:
        terminal.fail(str(error), WRONG_USE)


def _row(need: "Need") -> dict[str, object]:
    amount = round(need.amount, 2) if need.resource == "cores" else round(need.amount)
    return {
        "resource": need.resource,
        "item": need.what,
        "amount": amount,
        "unit": _UNITS[need.resource],
        "why": need.why or None,
    }

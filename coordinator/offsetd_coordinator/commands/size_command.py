"""`offsetd size`: the disk, memory, cores and descriptors that a workload needs."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from offsetd_coordinator.commands.terminal import WRONG_USE, Terminal

if TYPE_CHECKING:
    from offsetd_coordinator.offline.sizing import Need

COLUMNS: Final = ("resource", "item", "amount", "unit", "why")
_COUNT_MAX: Final = 10**9
_UNITS: Final = {"disk": "bytes", "memory": "bytes", "cores": "cores", "descriptors": "files"}


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the command to `app`."""

    @app.command("size")
    def size(
        *,
        groups: Annotated[
            int, typer.Option("--groups", min=0, max=_COUNT_MAX, metavar="N", help="Groups.")
        ],
        partitions: Annotated[
            int,
            typer.Option(
                "--partitions", min=1, max=1_000_000, metavar="P", help="Partitions of each group."
            ),
        ],
        commits_per_second: Annotated[
            float,
            typer.Option(
                "--commits-per-second", min=0, metavar="R", help="Commits of all groups together."
            ),
        ],
        offsets_per_commit: Annotated[
            int | None,
            typer.Option(
                "--offsets-per-commit", min=1, metavar="N", help="Default: all of the group."
            ),
        ] = None,
        history_days: Annotated[
            float | None,
            typer.Option(
                "--history-days",
                min=0,
                metavar="D",
                help="How long each commit is kept; default: history.ms.",
            ),
        ] = None,
        no_end_offsets: Annotated[
            bool, typer.Option("--no-end-offsets", help="Commits report no end offsets.")
        ] = False,
        assignments: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="NAME=VALUE", help="A setting of the server."),
        ] = None,
    ) -> None:
        """Estimate the disk, memory, cores and descriptors that a server needs.

        It asks no server. The constants were measured; docs/guides/sizing.md says how. Ids of
        groups and names of topics count as 20 bytes.

        Examples:
            offsetd size --groups 2000 --partitions 50 --commits-per-second 500
            offsetd size --groups 2000 --partitions 50 --commits-per-second 500 --history-days 7
            offsetd size --groups 10 --partitions 4 --commits-per-second 2 -o json
        """
        # The help needs none of these.
        from offsetd_coordinator.configuration.settings_sources import (  # noqa: PLC0415
            SettingsError,
            load_settings,
        )
        from offsetd_coordinator.offline.sizing import (  # noqa: PLC0415
            LOOP_SHARE_MAX,
            Workload,
            loop_share,
            needs,
        )

        try:
            settings = load_settings(assignments=assignments or ())
        except SettingsError as error:
            terminal.fail(str(error), WRONG_USE)
        workload = Workload(
            groups=groups,
            partitions=partitions,
            commits_per_second=commits_per_second,
            offsets_per_commit=offsets_per_commit or partitions,
            history_days=settings.history_ms / 86_400_000 if history_days is None else history_days,
            reports_ends=not no_end_offsets,
        )
        terminal.rows(COLUMNS, map(_row, needs(workload, settings)), droppable=("why",))
        busy = loop_share(workload)
        if busy > LOOP_SHARE_MAX:
            terminal.note(
                f"these commits need {busy:.1f} cores of the one thread that decides on commits:"
                " send several commits in a message, commit less often, or use several nodes"
            )


def _row(need: "Need") -> dict[str, object]:
    amount = round(need.amount, 2) if need.resource == "cores" else round(need.amount)
    return {
        "resource": need.resource,
        "item": need.what,
        "amount": amount,
        "unit": _UNITS[need.resource],
        "why": need.why or None,
    }

"""`offsetd doctor`: looks at a running server, or at a folder that no server has open."""

import os
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from offsetd_clients.cli.arguments.options import given_folder
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
    security_of_environment,
)
from offsetd_clients.cli.doctor.diagnosis import Finding, Grade, diagnosed
from offsetd_clients.cli.doctor.machine_checks import MACHINE_CHECKS
from offsetd_clients.cli.doctor.scrapes import METRICS_TOKEN_VARIABLE, MetricsAccess
from offsetd_clients.cli.doctor.server_checks import SERVER_CHECKS
from offsetd_clients.cli.doctor.server_facts import server_facts
from offsetd_clients.cli.printing.server_summary import fail_if_any
from offsetd_clients.cli.printing.terminal import OutputFormat, Terminal
from offsetd_clients.installation import install_command
from offsetd_clients.plurals import counted

COLUMNS = ("grade", "check", "what", "remedy")
ORDER = [Grade.BAD, Grade.WARN, Grade.OK]
# Checks of a data folder: (folder) -> (check, grade, what, remedy), by the server's package.
FOLDER_CHECKS = "offsetd.folder_checks"
FolderChecks = Callable[[Path], Iterator[tuple[str, str, str, str]]]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the command to `app`."""

    @app.command("doctor")
    def doctor(
        *,
        data_dir: Annotated[
            Path | None,
            typer.Option(
                "--data-dir",
                metavar="DIR",
                parser=given_folder,
                help="Look at this folder, not at a server.",
            ),
        ] = None,
        metrics: Annotated[
            str | None,
            typer.Option(
                "--metrics", metavar="HOST:PORT", help="The metrics port; default: metrics.address."
            ),
        ] = None,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Say what is wrong with a server or a folder, and what to do.

        It changes nothing. A table shows only what is wrong; the other formats of -o have a row for
        each check. Exits with 1 if something is bad; a warning alone is not a failure.
        OFFSETD_METRICS_TOKEN is the token of the metrics port.

        Examples:
            offsetd doctor
            offsetd doctor --address db1:7171 --metrics db1:9464
            offsetd doctor --data-dir /var/lib/offsetd   # a stopped server's folder
            offsetd doctor -o json | jq '.[] | select(.grade != "ok")'
        """
        if data_dir is not None:
            found = list(_of_folder(data_dir, terminal))
        else:
            with connected(address, timeout, terminal) as client:
                access = MetricsAccess(
                    tls=security_of_environment()["tls"],
                    token=os.environ.get(METRICS_TOKEN_VARIABLE) or None,
                )
                facts = server_facts(client, address, metrics, access)
            found = list(diagnosed(SERVER_CHECKS, facts))
        found.sort(key=lambda each: ORDER.index(each[1].grade))
        wrong = [each for each in found if each[1].grade is not Grade.OK]
        rows = wrong if terminal.output_format is OutputFormat.TABLE else found
        terminal.rows(COLUMNS, [_row(name, finding) for name, finding in rows])
        checks = len({name for name, _ in found})
        terminal.note(f"{counted(checks, 'check')}, {counted(len(wrong), 'finding')}")
        bad = dict.fromkeys(name for name, finding in wrong if finding.grade is Grade.BAD)
        fail_if_any(list(bad), terminal)


def _row(name: str, finding: Finding) -> dict[str, object]:
    return {
        "grade": str(finding.grade),
        "check": name,
        "what": finding.what or None,
        "remedy": finding.remedy or None,
    }


def _of_folder(folder: Path, terminal: Terminal) -> Iterator[tuple[str, Finding]]:
    points = entry_points(group=FOLDER_CHECKS)
    if not points:
        terminal.fail(f"--data-dir needs the server's package: {install_command('server')}")
    if not folder.is_dir():
        terminal.fail(f"{folder} is not a folder")
    checks: FolderChecks = next(iter(points)).load()
    yield from diagnosed(MACHINE_CHECKS, folder)
    for name, grade, what, remedy in checks(folder):
        yield name, Finding(Grade(grade), what, remedy)

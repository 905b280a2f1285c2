"""The options of jobs that read sources of offsets, and of their connections to servers."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from offsetd_clients.cli.arguments.option_groups import with_options
from offsetd_clients.cli.connection import TLS_PREFIX, TOKEN_VARIABLE, is_tls_wanted

from offsetd_pipeline.jobs.session import ConfOption, MasterOption, PyFilesOption, SparkOptions
from offsetd_pipeline.offset_sources import SourceOptions
from offsetd_pipeline.plurals import counted
from offsetd_pipeline.server_options import ServerOptions

SOURCE_HELP = (
    "A data folder, HOST:PORT, an archive, or a file: Kafka's CSV, rpk's lines, JSON "
    "of kafka-utils, offsetd's jsonl, Parquet, ZooKeeper's export. Use KIND:PLACE if "
    "the kind is not clear."
)

ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report", file_okay=False, metavar="FOLDER", help="The folder for the page and Parquet."
    ),
]


def passed_over(count: int, listed: int) -> str:
    """The text before the list of skipped lines. `listed` lines follow it."""
    told = f"{counted(count, 'line')} passed over"
    return f"{told}; --report has all of them, the first are" if count > listed else f"{told}:"


def connection_options(token_file: str) -> dict[str, str]:
    """The options with which tasks connect to servers: TLS settings of the environment.

    The tasks must have the files that the settings name. Raises typer.BadParameter for a token in
    the environment, because tasks run on other machines, and for unclear TLS settings.
    """
    if os.environ.get(TOKEN_VARIABLE) and not token_file:
        raise typer.BadParameter(f"{TOKEN_VARIABLE} does not reach tasks: say --token-file")
    try:
        is_tls = is_tls_wanted(os.environ)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    found = {
        "tls": "true" if is_tls else "",
        "tls_ca_file": os.environ.get(f"{TLS_PREFIX}CA", ""),
        "tls_certificate_file": os.environ.get(f"{TLS_PREFIX}CERTIFICATE", ""),
        "tls_key_file": os.environ.get(f"{TLS_PREFIX}KEY", ""),
        "tls_server_name": os.environ.get(f"{TLS_PREFIX}SERVER_NAME", ""),
        "token_file": token_file,
    }
    return {name: value for name, value in found.items() if value}


def server_options(address: str, connection: Mapping[str, str]) -> ServerOptions:
    """The server to write to."""
    return ServerOptions.of({"server": address, **connection})


def _reading(*, file_group: str, skip_bad_lines: bool, token_file: str) -> SourceOptions:
    return SourceOptions(
        file_group=file_group,
        skip_bad_lines=skip_bad_lines,
        connection=connection_options(token_file),
    )


def _where(*, master: str, conf: list[str] | None, py_files: list[str] | None) -> SparkOptions:
    return SparkOptions(master=master, settings=conf or (), py_files=py_files or ())


with_reading = with_options(
    "reading",
    _reading,
    {
        "file_group": (
            Annotated[
                str,
                typer.Option(
                    "--file-group",
                    metavar="GROUP",
                    help="The group, if a file does not name it.",
                ),
            ],
            "",
        ),
        "skip_bad_lines": (
            Annotated[
                bool,
                typer.Option(
                    "--skip-bad-lines", help="Count lines that are not offsets instead of failing."
                ),
            ],
            False,
        ),
        "token_file": (
            Annotated[
                str,
                typer.Option(
                    "--token-file", metavar="FILE", help="A file with the token for servers."
                ),
            ],
            "",
        ),
    },
)
"""Gives a command the options that make up its parameter `reading`, `SourceOptions`."""

with_spark = with_options(
    "where",
    _where,
    {"master": (MasterOption, ""), "conf": (ConfOption, None), "py_files": (PyFilesOption, None)},
)
"""Gives a command the options that make up its parameter `where`, `SparkOptions`."""

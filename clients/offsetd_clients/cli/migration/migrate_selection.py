"""The groups and topics of a plan, and their new names: the options of every plan."""

from pathlib import Path
from typing import Annotated, Any

import typer

from offsetd_clients.cli.arguments.option_groups import with_options
from offsetd_clients.cli.arguments.user_files import read_file
from offsetd_clients.cli.printing.plain_text import error_words
from offsetd_clients.migration.selection import BadSelection, Selection, parse_renames


def _repeatable(name: str, metavar: str, text: str) -> Any:
    return Annotated[list[str] | None, typer.Option(name, metavar=metavar, help=text)]


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "include": (
        _repeatable("--include", "REGEX", "Only groups that match this pattern; repeatable."),
        None,
    ),
    "exclude": (
        _repeatable("--exclude", "REGEX", "No groups that match this pattern; repeatable."),
        None,
    ),
    "include_topic": (
        _repeatable("--include-topic", "REGEX", "Only topics that match this pattern; repeatable."),
        None,
    ),
    "exclude_topic": (
        _repeatable("--exclude-topic", "REGEX", "No topics that match this pattern; repeatable."),
        None,
    ),
    "rename": (_repeatable("--rename", "OLD=NEW", "A new id for a group; repeatable."), None),
    "renames": (
        Annotated[
            Path | None,
            typer.Option(
                "--renames",
                metavar="FILE",
                exists=True,
                dir_okay=False,
                help="A file of new ids, with lines OLD=NEW.",
            ),
        ],
        None,
    ),
}


def _selection(
    *,
    include: list[str] | None,
    exclude: list[str] | None,
    include_topic: list[str] | None,
    exclude_topic: list[str] | None,
    rename: list[str] | None,
    renames: Path | None,
) -> Selection:
    try:
        lines = read_file(renames).decode().splitlines() if renames else []
        return Selection(
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
            include_topics=tuple(include_topic or ()),
            exclude_topics=tuple(exclude_topic or ()),
            renames=parse_renames([*(line for line in lines if line.strip()), *(rename or ())]),
        )
    except (BadSelection, OSError, UnicodeDecodeError) as error:
        where = "" if isinstance(error, BadSelection | OSError) else f"{renames}: "
        raise typer.BadParameter(f"{where}{error_words(error)}") from None


with_selection = with_options("selection", _selection, _OPTIONS)
"""Gives a command the options that make up its parameter `selection`."""

"""`offsetd groups clone|export|import`: changes of many offsets at once."""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from offsetd_clients.change_values import (
    ClonedGroup,
    ImportedGroup,
    OffsetFormat,
)
from offsetd_clients.cli.arguments.group_choice import GroupChoice, with_any_groups
from offsetd_clients.cli.arguments.options import (
    DryRunOption,
    ReasonOption,
    ReplaceFileOption,
    TopicsOption,
)
from offsetd_clients.cli.arguments.user_files import check_absent, read_file, write_file
from offsetd_clients.cli.completion import complete_group_id
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
    explain,
)
from offsetd_clients.cli.groups import group_reset, group_seek, offset_deletion
from offsetd_clients.cli.groups.group_reset import CHANGE_COLUMNS, CHANGE_DROPPABLE, change_row
from offsetd_clients.cli.printing.change_summary import summary
from offsetd_clients.cli.printing.terminal import (
    EXIT_FAILED,
    EXIT_PARTLY,
    EXIT_WRONG_USE,
    ProgressReport,
    Row,
    Terminal,
    named_id,
)

FILE_TIMEOUT_S_DEFAULT = 600.0
CLONE_COLUMNS = ("source", "target", "offsets", "kept_offsets", "revision")
IMPORT_COLUMNS = ("group", "offsets", "revision", "problem")

_SUFFIXES = {
    ".csv": OffsetFormat.KAFKA_CSV,
    ".json": OffsetFormat.KAFKA_UTILS_JSON,
    ".jsonl": OffsetFormat.JSONL,
}

FormatOption = Annotated[
    OffsetFormat | None,
    typer.Option("--format", help="Kafka's CSV, rpk's lines, kafka-utils' JSON, or offsetd's own."),
]


def register(groups: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommands to `groups`."""
    group_reset.register(groups, terminal)
    group_seek.register(groups, terminal)
    offset_deletion.register(groups, terminal)
    _register_clone(groups, terminal)
    _register_export(groups, terminal)
    _register_import(groups, terminal)


def _register_clone(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("clone")
    def clone(
        source: Annotated[
            str,
            typer.Argument(
                metavar="SOURCE",
                help="The group whose offsets are copied.",
                autocompletion=complete_group_id,
            ),
        ],
        target: Annotated[
            str, typer.Argument(metavar="TARGET", help="The group that gets the offsets.")
        ],
        *,
        topics: TopicsOption = None,
        overwrite: Annotated[
            bool,
            typer.Option(
                "--overwrite", help="Allow an existing target; its other partitions stay."
            ),
        ] = False,
        dry_run: DryRunOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Copy the offsets of a group to another group, with their metadata.

        Examples:
            offsetd groups clone billing billing-trial --dry-run
            offsetd groups clone billing billing-trial --topic orders
        """
        with connected(address, timeout, terminal) as client:
            cloned = client.clone_group(
                source,
                target,
                topics=topics or (),
                overwrite=overwrite,
                validate_only=dry_run,
                reason=reason,
            )
        terminal.rows(CLONE_COLUMNS, [_clone_row(source, target, cloned)])
        if dry_run:
            terminal.note("dry run: nothing was changed")


def _register_export(app: typer.Typer, terminal: Terminal) -> None:
    @app.command("export")
    @with_any_groups
    def export(
        groups: GroupChoice,
        *,
        file_format: FormatOption = None,
        file: Annotated[
            Path | None,
            typer.Option(
                "--file",
                dir_okay=False,
                metavar="FILE",
                help="The file to write; default: standard output.",
            ),
        ] = None,
        force: ReplaceFileOption = False,
        prefix: Annotated[
            str, typer.Option(metavar="TEXT", help="Only groups whose id has this prefix.")
        ] = "",
        topics: TopicsOption = None,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = FILE_TIMEOUT_S_DEFAULT,
    ) -> None:
        """Write the offsets of groups to a new file, or print them in the format of the file.

        Without names it exports all groups. Only `jsonl` has all values of an offset; it is the
        default unless the file's name ends with another format.

        Examples:
            offsetd groups export --file offsets.jsonl           # of all groups
            offsetd groups export billing --file billing.csv   # as Kafka's tool has it
            offsetd groups export billing --format rpk
        """
        if file_format is None:
            suffix = file.suffix if file is not None else ""
            file_format = _SUFFIXES.get(suffix, OffsetFormat.JSONL)
        if groups.all_groups and prefix:
            raise typer.BadParameter("--prefix chooses groups: it cannot go with --all-groups")
        _refuse_other_output(terminal, file_format)
        check_absent(file, terminal, force=force)
        with connected(address, timeout, terminal) as client:
            pieces = client.export_offsets(
                file_format, groups.named, group_id_prefix=prefix, topics=topics or ()
            )
            if file is None:
                terminal.lines(_lines(pieces))
            else:
                with _told_of(file, terminal), terminal.progress("exporting") as report:
                    write_file(file, _counted(pieces, report))
                terminal.note(f"written as {file_format.value}: {file}")


def _refuse_other_output(terminal: Terminal, file_format: OffsetFormat) -> None:
    """Ends the command if `-o` was given with a format other than that of the file."""
    source = terminal.called.get_parameter_source("output")
    if source.name == "COMMANDLINE" and terminal.output_format.value != file_format.value:
        formats = "|".join(OffsetFormat)
        terminal.fail(f"an export has formats of its own: --format {formats}", EXIT_WRONG_USE)


def _register_import(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("import")
    def import_(
        file: Annotated[
            Path,
            typer.Argument(metavar="FILE", help="The file to import; -: standard input."),
        ],
        *,
        file_format: FormatOption = None,
        group: Annotated[
            str, typer.Option(metavar="GROUP", help="The group, if the file does not name it.")
        ] = "",
        dry_run: DryRunOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = FILE_TIMEOUT_S_DEFAULT,
    ) -> None:
        """Commit the offsets of a file: each group as a whole, and nothing if a line is wrong.

        They replace stored offsets, even newer ones: --dry-run shows both. Exits with 3 if some
        groups were refused.

        Examples:
            offsetd groups import offsets.jsonl --dry-run
            offsetd groups import billing.csv --group billing-copy
            offsetd groups export billing | offsetd groups import - --format jsonl
        """
        if file_format is None:
            file_format = _SUFFIXES.get(file.suffix)
        if file_format is None:
            raise typer.BadParameter("the file's name does not show its format: give --format")
        try:
            content = read_file(file)
        except OSError as error:
            raise typer.BadParameter(f"{file}: {error.strerror}") from None
        with connected(address, timeout, terminal) as client, terminal.progress("importing"):
            imported = client.import_offsets(
                content, file_format, group_id=group, validate_only=dry_run, reason=reason
            )
        if dry_run:
            _print_dry_import(imported, terminal)
        else:
            terminal.rows(IMPORT_COLUMNS, map(_import_row, imported))
            _tell_replaced(imported, terminal)
        if not imported:
            terminal.note(f"{file} holds no offsets")
        if dry_run:
            terminal.note("dry run: nothing was changed")
        failed = [each for each in imported if each.error is not None]
        if failed:
            lines = [
                f"{named_id(each.group_id)}: {explain(each.error, address)}"
                for each in failed
                if each.error is not None
            ]
            code = EXIT_PARTLY if len(failed) < len(imported) else EXIT_FAILED
            terminal.fail("\n".join(lines), code)


def _print_dry_import(imported: Sequence[ImportedGroup], terminal: Terminal) -> None:
    """Prints each offset before and after an import. If there are too many, it counts the rest."""
    taken = [each for each in imported if each.error is None]
    rows = ((each.group_id, change) for each in taken for change in each.changes)
    terminal.rows(CHANGE_COLUMNS, map(change_row, rows), droppable=CHANGE_DROPPABLE)
    changes = [change for each in taken for change in each.changes]
    if changes:
        terminal.note(summary((each.before, each.after) for each in changes))
    left = sum(each.offset_count for each in taken) - len(changes)
    if left:
        replaced = sum(each.replaced_offset_count for each in taken)
        terminal.note(f"{left} more are not shown; {replaced} of all would replace other offsets")


def _tell_replaced(imported: Sequence[ImportedGroup], terminal: Terminal) -> None:
    replaced = sum(each.replaced_offset_count for each in imported)
    if replaced:
        total = sum(each.offset_count for each in imported if each.error is None)
        terminal.note(
            f"{replaced} of {total} offsets replaced others, which `offsetd admin audit` has"
        )


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines in pieces that may end anywhere, even within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + decoder.decode(piece)).split("\n")
        yield from lines
    if rest:
        yield rest


def _counted(pieces: Iterable[bytes], report: ProgressReport) -> Iterator[bytes]:
    """Yields the pieces, and reports the number of bytes up to then."""
    total_bytes = 0
    for piece in pieces:
        total_bytes += len(piece)
        report(0, 0, f"{total_bytes:,} bytes")
        yield piece


@contextmanager
def _told_of(file: Path, terminal: Terminal) -> Iterator[None]:
    """Reports a failure to write the file in one line, which names only this file."""
    try:
        yield
    except OSError as error:
        terminal.fail(f"cannot write {file}: {error.strerror or error}")


def _clone_row(source: str, target: str, cloned: ClonedGroup) -> Row:
    return {
        "source": source,
        "target": target,
        "offsets": cloned.offset_count,
        "kept_offsets": cloned.kept_offset_count,
        "revision": cloned.revision.log_offset if cloned.revision else None,
    }


def _import_row(imported: ImportedGroup) -> Row:
    return {
        "group": imported.group_id,
        "offsets": imported.offset_count,
        "revision": imported.revision.log_offset if imported.revision else None,
        "problem": imported.error.reason or str(imported.error) if imported.error else None,
    }

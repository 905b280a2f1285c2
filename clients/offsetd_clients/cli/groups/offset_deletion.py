"""`offsetd groups offset-delete`, like `kafka-consumer-groups --delete-offsets` and rpk."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from offsetd_clients import DeletedOffsets, OffsetClient, TopicPartition
from offsetd_clients.cli.arguments.group_choice import ExecuteForAllOption, GroupChoice, with_groups
from offsetd_clients.cli.arguments.options import DryRunOption, ReasonOption
from offsetd_clients.cli.arguments.reset_targets import parse_topics, read_partitions_file
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.printing.terminal import Row, Terminal

COLUMNS = ("group", "topic", "partition", "revision")

TopicsToDeleteOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="TOPIC[:P,…]", help="The topic, or some of its partitions; repeatable."
    ),
]
FromFileOption = Annotated[
    Path | None,
    typer.Option(
        "--from-file",
        metavar="FILE",
        help="A file with lines TOPIC PARTITION; -: stdin.",
    ),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `app`."""

    @app.command("offset-delete")
    @with_groups
    def offset_delete(
        groups: GroupChoice,
        *,
        topics: TopicsToDeleteOption = None,
        from_file: FromFileOption = None,
        dry_run: DryRunOption = False,
        execute: ExecuteForAllOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Delete offsets of groups, by topic or partition. The groups stay.

        A group that still reads a topic keeps its offsets of that topic. Offsets of named groups
        are deleted at once; of all groups only with --execute.

        Examples:
            offsetd groups offset-delete billing --topic old-orders --dry-run
            offsetd groups offset-delete billing --topic old-orders --topic orders:7,8
            offsetd groups offset-delete --all-groups --topic old-orders --execute
        """
        if bool(topics) == (from_file is not None):
            raise typer.BadParameter("choose offsets with --topic or --from-file")
        is_shown = groups.is_only_shown(dry_run=dry_run, execute=execute)
        whole_topics, partitions = parse_topics(topics or ())
        if from_file is not None:
            partitions = read_partitions_file(from_file)
        with connected(address, timeout, terminal) as client:
            deleted, failures = each_group(
                groups.ids(client, terminal),
                lambda group_id: delete_offsets_of(
                    client, group_id, whole_topics, partitions, is_shown=is_shown, reason=reason
                ),
            )
        if deleted:
            terminal.rows(COLUMNS, _rows(deleted))
        if is_shown:
            groups.tell_of_dry_run(terminal, "nothing was deleted")
        report_failures(failures, deleted, address, terminal)


def delete_offsets_of(
    client: OffsetClient,
    group_id: str,
    topics: Sequence[str],
    partitions: Collection[TopicPartition],
    *,
    is_shown: bool,
    reason: str,
) -> DeletedOffsets:
    """Deletes offsets of one group. Raises GroupNotFound if the group does not exist.

    The server treats an unknown group as one without offsets. But a user may have misspelled it.
    """
    deleted = client.delete_offsets(
        group_id, partitions, topics=topics, validate_only=is_shown, reason=reason
    )
    if not deleted.partitions:
        client.get_group(group_id)
    return deleted


def _rows(deleted: Sequence[tuple[str, DeletedOffsets]]) -> Iterator[Row]:
    for group_id, answer in deleted:
        for where in answer.partitions:
            yield {
                "group": group_id,
                "topic": where.topic,
                "partition": where.partition,
                "revision": answer.revision.log_offset if answer.revision else None,
            }

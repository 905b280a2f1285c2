"""`offsetd log recreate`: partitions begin anew, empty, whatever they hold, damaged or not."""

from pathlib import Path
from typing import Annotated, Final

import typer
from offsetd_storage.files import OsFiles
from offsetd_storage.folder_view import read_folder
from offsetd_storage.segment import LOG_SUFFIX
from offsetd_storage.store_config import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.commands.log_folder import (
    DEFAULT_FOLDER,
    FolderOption,
    PartitionOption,
    failures_told,
)
from offsetd_coordinator.commands.offline_store import SetOption, offline_settings, opened_store
from offsetd_coordinator.commands.terminal import WRONG_USE, Terminal

COLUMNS: Final = ("topic", "partition", "bytes_lost", "start_offset")


def register(group: typer.Typer, terminal: Terminal) -> None:
    """Adds `recreate` to the group `log`."""

    @group.command("recreate")
    def recreate(
        topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="Of which topic.")],
        data_dir: FolderOption = DEFAULT_FOLDER,
        partition: PartitionOption = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Change nothing; say what would be lost.")
        ] = False,
        assignments: SetOption = None,
    ) -> None:
        """Have partitions begin anew, empty: all that they hold is lost.

        For a topic that nobody needs any more, and for a partition that is quarantined and cannot
        be brought back. Its folder may be missing. It goes on at the offset at which it ended, so
        that no offset is given to another record. Without --partition it is partition 0 alone.
        """
        with failures_told(terminal):
            if topic == OFFSETS_TOPIC and not partition:
                terminal.fail(f"say which --partition of {topic} is to lose all", code=WRONG_USE)
            asked = [_checked(terminal, topic, each) for each in sorted(set(partition or [0]))]
            view = read_folder(OsFiles(), data_dir)
            lost = {each: _bytes_of(data_dir / each.folder_name) for each in asked}
            if dry_run:
                rows = [_row(each, lost[each], None) for each in asked]
                terminal.rows(COLUMNS, rows)
                terminal.note(f"it would lose {sum(lost.values())} bytes")
                return
            settings = offline_settings(terminal, OFFSETS_TOPIC, assignments or ())
            with (
                terminal.progress("recreate") as report,
                opened_store(terminal, view, settings, report, begin_anew=asked) as store,
            ):
                starts = {each: store.log(each).log_start_offset for each in asked}
            terminal.rows(COLUMNS, [_row(each, lost[each], starts[each]) for each in asked])


def _checked(terminal: Terminal, topic: str, partition: int) -> TopicPartition:
    try:
        return TopicPartition.checked(topic, partition)
    except ValueError as error:
        terminal.fail(str(error), code=WRONG_USE)


def _bytes_of(folder: Path) -> int:
    """Of the segments in a folder that may be missing, or damaged."""
    files = OsFiles()
    if not files.exists(folder):
        return 0
    names = (name for name in files.list_folder(folder) if name.endswith(LOG_SUFFIX))
    return sum(files.size(folder / name) for name in names)


def _row(topic_partition: TopicPartition, lost: int, start: int | None) -> dict[str, object]:
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "bytes_lost": lost,
        "start_offset": start,
    }

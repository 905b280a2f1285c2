"""Partition folders that a Kafka broker set aside because it does not know their topics.

When Kafka (KRaft) starts, it renames a partition's folder that its metadata do not know to
`<topic>-<partition>.<32 digits>-stray`, and keeps it. Its contents are as offsetd left them, so
offsetd restores the folder's name when it opens the data folder again.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.topic_partition import TopicPartition

_STRAY: Final = re.compile(r"(.+)\.[0-9a-f]{32}-stray", re.ASCII)


@contextmanager
def strays_taken_back(
    files: Files, path: Path, partitions: list[TopicPartition]
) -> Iterator[tuple[str, ...]]:
    """In the block, these partitions have their folders again. Yields a warning for each rename.

    A partition that has a folder keeps it. If several were set aside for one partition, the one
    that was changed last counts. An error in the block undoes the renames. Raises OSError.
    """
    aside: dict[str, list[str]] = {}
    for name in files.list_folder(path):
        matched = _STRAY.fullmatch(name)
        if matched is not None and files.is_folder(path / name):
            aside.setdefault(matched[1], []).append(name)
    renamed: list[tuple[Path, Path]] = []
    try:
        for partition in partitions:
            names = aside.get(partition.folder_name, [])
            if names and not files.exists(path / partition.folder_name):
                stray = max((path / name for name in names), key=partial(_written_ms, files))
                files.rename(stray, path / partition.folder_name)
                renamed.append((stray, path / partition.folder_name))
        if renamed:
            files.sync_folder(path)
        yield tuple(
            f"a broker had set {folder.name} aside as {stray.name}: it has its name again"
            for stray, folder in renamed
        )
    except BaseException:
        for stray, folder in renamed:
            files.rename(folder, stray)
        raise


def _written_ms(files: Files, folder: Path) -> int:
    """The latest time at which a file in a partition's folder was written."""
    return max((files.modified_ms(folder / name) for name in files.list_folder(folder)), default=0)

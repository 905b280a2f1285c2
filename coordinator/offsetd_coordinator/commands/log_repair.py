"""`offsetd log repair`: keeps all valid batches of damaged partitions, to serve them again."""

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from offsetd_storage.batch.record_batch import batch_header, decode_batch
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.folder.folder_format import read_properties
from offsetd_storage.offsets_topic.schemas.keys import UnknownKey, decode_key
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.recovery.folder_recovery import planned_repairs
from offsetd_storage.recovery.quarantine import Damage
from offsetd_storage.recovery.repair_plan import ASIDE_SUFFIX, BadBytes, Repair
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import FolderView, read_folder

from offsetd_coordinator.commands.log_folder import failures_told
from offsetd_coordinator.commands.log_recreate import checked, known_partitions
from offsetd_coordinator.commands.offline_store import offline_settings, opened_store
from offsetd_coordinator.commands.terminal import Terminal
from offsetd_coordinator.offline.offline_cleaning_run import CleaningSettings

COLUMNS: Final = ("topic", "partition", "file", "position", "bytes", "reason", "groups")


def repair(
    terminal: Terminal,
    folder: Path,
    topic: str,
    partitions: Sequence[int] | None,
    assignments: Sequence[str],
    *,
    is_dry: bool,
) -> None:
    """Repairs damaged partitions. A dry run shows what would be left out."""
    with failures_told(terminal):
        view = read_folder(OsFiles(), folder)
        if read_properties(OsFiles(), folder) is None:
            terminal.fail(f"{folder} is not a data folder of offsetd; nothing was changed")
        asked = _asked(terminal, view, topic, partitions)
        settings = offline_settings(terminal, OFFSETS_TOPIC, assignments)
        if is_dry:
            repairs, damages = _planned(folder, settings, asked)
        else:
            with (
                terminal.progress("repair") as report,
                opened_store(terminal, view, settings, report, repaired=asked) as store,
            ):
                repairs, damages = store.report.repairs, store.quarantined
        terminal.rows(COLUMNS, (row for each in repairs for row in _rows(each)))
        for each in repairs:
            terminal.note(_summary(each, is_dry=is_dry))
        if not repairs:
            terminal.note("no partition has damage that a repair can remove")
        if repairs and is_dry:
            terminal.note("nothing was changed: repeat with --execute to do it")
        left = [str(damages[each]) for each in asked if each in damages]
        if left:
            terminal.fail("; ".join(left))


def _asked(
    terminal: Terminal, view: FolderView, topic: str, partitions: Sequence[int] | None
) -> list[TopicPartition]:
    known = known_partitions(view)
    if partitions is None:
        return sorted(each for each in known if each.topic == topic)
    asked = [checked(terminal, topic, each) for each in sorted(set(partitions))]
    for each in asked:
        if each not in known:
            terminal.fail(f"{view.folder} has nothing of {each.folder_name}; nothing was changed")
    return asked


def _planned(
    folder: Path, settings: CleaningSettings, asked: Collection[TopicPartition]
) -> tuple[tuple[Repair, ...], dict[TopicPartition, Damage]]:
    survey = planned_repairs(
        OsFiles(),
        folder,
        settings.store,
        asked,
        clock=SystemClock(),
        random=random.SystemRandom(),
    )
    return survey.repairs, dict(survey.damaged)


def _rows(found: Repair) -> Iterator[dict[str, object]]:
    row = {"topic": found.topic_partition.topic, "partition": found.topic_partition.partition}
    for missing in found.missing:
        name, _, reason = missing.partition(": ")
        yield row | {"file": name, "position": None, "bytes": None, "reason": reason, "groups": []}
    for bad in found.bad:
        yield row | {
            "file": f"{bad.base_offset:020d}.log",
            "position": bad.position,
            "bytes": len(bad.content),
            "reason": bad.reason,
            "groups": _groups(bad) if found.topic_partition.topic == OFFSETS_TOPIC else [],
        }


def _groups(bad: BadBytes) -> list[str]:
    """The groups whose records can be read in these bytes. Damage may have changed a name."""
    return sorted(set(_named(_batches(bad.content))))


def _batches(content: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(content):
        try:
            size = batch_header(content, position).size_bytes
        except CorruptBatch:
            return
        yield content[position : position + size]
        position += size


def _named(batches: Iterable[bytes]) -> Iterator[str]:
    for batch in batches:
        try:
            for record in decode_batch(batch, check_crc=False).records:
                key = decode_key(record.key or b"")
                if not isinstance(key, UnknownKey):
                    yield key.group
        except (CorruptBatch, UndecodableRecord):
            continue


def _summary(found: Repair, *, is_dry: bool) -> str:
    lost = sum(len(each.content) for each in found.bad)
    would = "would be" if is_dry else "were"
    text = f"{found.topic_partition}: {found.bytes_kept} bytes of batches {would} kept"
    if found.batches_appended:
        text += f", {found.batches_appended} batches of the journal's share appended"
    if found.bad:
        text += f", {lost} bytes left out; the original segments are kept (*{ASIDE_SUFFIX}*)"
    return text

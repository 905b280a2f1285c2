"""`offsetd log repair`: keeps all valid batches of damaged partitions, to serve them again."""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.folder.folder_format import read_properties
from offsetd_storage.recovery.folder_recovery import planned_repairs
from offsetd_storage.recovery.quarantine import Damage
from offsetd_storage.recovery.repair_plan import ASIDE_SUFFIX, Repair
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import FolderView, read_folder

from offsetd_coordinator.commands.log_folder import failures_told
from offsetd_coordinator.commands.log_recreate import checked, known_partitions
from offsetd_coordinator.commands.offline_store import offline_settings, opened_store
from offsetd_coordinator.commands.terminal import Terminal
from offsetd_coordinator.offline.offline_audit import note_offline_change
from offsetd_coordinator.offline.offline_cleaning_run import CleaningSettings
from offsetd_coordinator.offline.repair_losses import Losses, losses_of

COLUMNS: Final = ("topic", "partition", "file", "position", "bytes", "reason", "groups")
COLUMNS_BY_GROUP: Final = (
    *("group", "topic", "partition", "lost_offset", "offset_after", "certain", "log_partition"),
)
METHOD: Final = "RepairPartition"
"""The name of a repair in the audit log."""
_GROUPS_RECORDED_MAX: Final = 1000


def repair(
    terminal: Terminal,
    folder: Path,
    topic: str,
    partitions: Sequence[int] | None,
    assignments: Sequence[str],
    *,
    is_dry: bool,
    by_group: bool,
) -> None:
    """Repairs damaged partitions. A dry run shows what would be left out."""
    files = OsFiles()
    with failures_told(terminal):
        view = read_folder(files, folder)
        if read_properties(files, folder) is None:
            terminal.fail(f"{folder} is not a data folder of offsetd; nothing was changed")
        asked = _asked(terminal, view, topic, partitions)
        settings = offline_settings(terminal, OFFSETS_TOPIC, assignments)
        # Planned in any case: a repair that is done does not leave the bytes where they were.
        repairs, damages = _planned(folder, settings, asked)
        losses = {
            each.topic_partition: _losses(files, folder, each)
            for each in repairs
            if each.topic_partition.topic == OFFSETS_TOPIC
        }
        if repairs and not is_dry:
            with (
                terminal.progress("repair") as report,
                opened_store(terminal, view, settings, report, repaired=asked) as store,
            ):
                repairs, damages = store.report.repairs, store.quarantined
                for each in repairs:
                    what = _what(each, losses.get(each.topic_partition))
                    problem = note_offline_change(store, METHOD, each.topic_partition.topic, what)
                    if problem:
                        terminal.note(problem)
        _show(terminal, repairs, losses, is_dry=is_dry, by_group=by_group)
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


def _losses(files: OsFiles, folder: Path, found: Repair) -> Losses:
    return losses_of(files, folder / found.topic_partition.folder_name, found)


def _show(
    terminal: Terminal,
    repairs: Sequence[Repair],
    losses: Mapping[TopicPartition, Losses],
    *,
    is_dry: bool,
    by_group: bool,
) -> None:
    if by_group:
        terminal.rows(COLUMNS_BY_GROUP, _rows_by_group(losses))
    else:
        terminal.rows(COLUMNS, (row for each in repairs for row in _rows(each, losses)))
    for each in repairs:
        terminal.note(_summary(each, losses.get(each.topic_partition), is_dry=is_dry))
    if not repairs:
        terminal.note("no partition has damage that a repair can remove")
    if repairs and is_dry:
        terminal.note("nothing was changed: repeat with --execute to do it")


def _rows(found: Repair, losses: Mapping[TopicPartition, Losses]) -> Iterator[dict[str, object]]:
    row = {"topic": found.topic_partition.topic, "partition": found.topic_partition.partition}
    for missing in found.missing:
        name, _, reason = missing.partition(": ")
        yield row | {"file": name, "position": None, "bytes": None, "reason": reason, "groups": []}
    of_partition = losses.get(found.topic_partition)
    for bad in found.bad:
        yield row | {
            "file": f"{bad.base_offset:020d}.log",
            "position": bad.position,
            "bytes": len(bad.content),
            "reason": bad.reason,
            "groups": [] if of_partition is None else list(of_partition.groups_in[bad]),
        }


def _rows_by_group(losses: Mapping[TopicPartition, Losses]) -> Iterator[dict[str, object]]:
    for topic_partition, found in losses.items():
        for loss in found.known:
            yield {
                "group": loss.group,
                "topic": loss.topic,
                "partition": loss.partition,
                "lost_offset": loss.lost_offset,
                "offset_after": loss.offset_after,
                "certain": loss.is_certain,
                "log_partition": topic_partition.partition,
            }


def _what(found: Repair, losses: Losses | None) -> dict[str, Any]:
    """The repair as its audit event has it."""
    what: dict[str, Any] = {
        "partition": found.topic_partition.partition,
        "damage": found.damage,
        "bytes_kept": found.bytes_kept,
        "bytes_left_out": sum(len(each.content) for each in found.bad),
        "batches_appended": len(found.appended),
        "missing": list(found.missing),
    }
    if losses is not None:
        what["groups"] = list(losses.group_ids[:_GROUPS_RECORDED_MAX])
        what["group_count"] = len(losses.group_ids)
        what["unreadable"] = list(losses.unreadable_parts)
    return what


def _summary(found: Repair, losses: Losses | None, *, is_dry: bool) -> str:
    left_out = sum(len(each.content) for each in found.bad)
    would = "would be" if is_dry else "were"
    text = f"{found.topic_partition}: {found.bytes_kept} bytes of batches {would} kept"
    if found.appended:
        text += f", {len(found.appended)} batches of the journal's share appended"
    if found.bad:
        text += f", {left_out} bytes left out; the original segments are kept (*{ASIDE_SUFFIX}*)"
    if losses is not None:
        text += f"; {len(losses.group_ids)} groups lose records that can be read"
        if losses.unreadable_parts:
            text += (
                "; any group of this log partition may have lost records in what cannot be read: "
                + ", ".join(losses.unreadable_parts)
            )
    return text

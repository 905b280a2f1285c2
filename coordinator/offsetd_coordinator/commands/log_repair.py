"""`offsetd log repair`: keeps all valid batches of damaged partitions, to serve them again."""

import itertools
import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.disk.files import Files, OsFiles
from offsetd_storage.errors import StorageError
from offsetd_storage.folder.folder_format import read_properties
from offsetd_storage.recovery.folder_recovery import planned_repairs
from offsetd_storage.recovery.quarantine import Damage
from offsetd_storage.recovery.repair_plan import ASIDE_SUFFIX, Repair
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import FolderView

from offsetd_coordinator.administration.repair_journal import read_begun, write_begun
from offsetd_coordinator.commands.log_folder import failures_told, looked_into
from offsetd_coordinator.commands.log_recreate import checked, known_partitions
from offsetd_coordinator.commands.offline_store import offline_settings, opened_store, told
from offsetd_coordinator.commands.terminal import PARTLY_DONE, Terminal
from offsetd_coordinator.offline.offline_audit import event_of_user
from offsetd_coordinator.offline.offline_cleaning_run import CleaningSettings
from offsetd_coordinator.offline.repair_losses import Losses, losses_of

COLUMNS: Final = ("topic", "partition", "file", "position", "bytes", "reason", "groups")
COLUMNS_BY_GROUP: Final = (
    *("group", "topic", "partition", "lost_offset", "offset_after", "certain", "log_partition"),
)
METHOD: Final = "RepairPartition"
"""The name of a repair in the audit log."""
_LISTED_MAX: Final = 1000
_LIST_BYTES_MAX: Final = 100_000  # An event has three lists, and a record may have 1 MiB.


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
        view = looked_into(folder)
        if read_properties(files, folder) is None:
            terminal.fail(f"{folder} is not a data folder of offsetd; nothing was changed")
        asked = _asked(terminal, view, topic, partitions)
        settings = offline_settings(terminal, OFFSETS_TOPIC, assignments)
        work = _Work(terminal, folder, is_dry=is_dry, by_group=by_group)
        repairs, damages = _planned(folder, settings, asked)
        begun = read_begun(files, folder)
        for event in begun:
            terminal.note(f"the audit log lacks the entry of the repair of {told(event)}")
        if is_dry:
            for each in repairs:
                work.foresee(files, each)
        elif repairs or begun:
            _refuse_unwritable(terminal, folder, repairs)
            damages = _repaired(terminal, view, settings, asked, work)
        work.show()
        others = sorted({each.topic for each in damages} - {topic})
        for other in others:
            terminal.note(f"{other} is damaged too: offsetd log repair --topic {other}")
        left = [str(damages[each]) for each in asked if each in damages]
        if left:
            terminal.fail("; ".join(left), code=PARTLY_DONE if work.repairs and not is_dry else 1)


def _repaired(
    terminal: Terminal,
    view: FolderView,
    settings: CleaningSettings,
    asked: Collection[TopicPartition],
    work: "_Work",
) -> Mapping[TopicPartition, Damage]:
    """Repairs, and returns the damage that is left. If that fails, it shows what was done."""
    try:
        with (
            terminal.progress("repair") as report,
            opened_store(terminal, view, settings, report, repaired=asked, witness=work) as store,
        ):
            return store.quarantined
    except (StorageError, OSError):
        work.show()
        raise


class _Work:
    """The repairs of one call, as they are begun and done, and their losses."""

    def __init__(self, terminal: Terminal, folder: Path, *, is_dry: bool, by_group: bool) -> None:
        self._terminal = terminal
        self._folder = folder
        self._is_dry = is_dry
        self._by_group = by_group
        self.repairs: list[Repair] = []
        self._losses: dict[TopicPartition, Losses] = {}

    def foresee(self, files: Files, repair: Repair) -> None:
        """Takes a repair that is only shown."""
        self._find_losses(files, repair)
        self.is_done(repair)

    def begins(self, files: Files, repair: Repair) -> None:
        """Notes the event of a repair on the disk, before the bytes that it loses are put aside."""
        self._find_losses(files, repair)
        what = _what(repair, self._losses.get(repair.topic_partition))
        event = event_of_user(METHOD, repair.topic_partition.topic, what)
        write_begun(files, self._folder, [*read_begun(files, self._folder), event])

    def is_done(self, repair: Repair) -> None:
        """Says at once what became of a partition."""
        self.repairs.append(repair)
        found = self._losses.get(repair.topic_partition)
        self._terminal.note(_summary(repair, found, is_dry=self._is_dry))

    def show(self) -> None:
        """Prints the rows of what was done, or of what would be done."""
        if self._by_group:
            self._terminal.rows(COLUMNS_BY_GROUP, _rows_by_group(self._losses, self.repairs))
        else:
            rows = (row for each in self.repairs for row in _rows(each, self._losses))
            self._terminal.rows(COLUMNS, rows)
        if not self.repairs:
            self._terminal.note("no partition has damage that a repair can remove")
        if self.repairs and self._is_dry:
            self._terminal.note("nothing was changed: repeat with --execute to do it")

    def _find_losses(self, files: Files, repair: Repair) -> None:
        if repair.topic_partition.topic == OFFSETS_TOPIC:
            log_folder = self._folder / repair.topic_partition.folder_name
            self._losses[repair.topic_partition] = losses_of(files, log_folder, repair)


def _refuse_unwritable(terminal: Terminal, folder: Path, repairs: Sequence[Repair]) -> None:
    files = OsFiles()
    folders = [folder, *(folder / each.topic_partition.folder_name for each in repairs)]
    bad = [str(each) for each in folders if files.exists(each) and not files.may_write(each)]
    if bad:
        terminal.fail(
            f"this user may not write to {', '.join(bad)}; nothing was changed: run the repair as"
            " the user of the server, or give the folders to this user"
        )


def _asked(
    terminal: Terminal, view: FolderView, topic: str, partitions: Sequence[int] | None
) -> list[TopicPartition]:
    known = known_partitions(view)
    if partitions is None:
        of_topic = sorted(each for each in known if each.topic == topic)
        if not of_topic:
            topics = ", ".join(sorted({each.topic for each in known}))
            terminal.fail(f"{view.folder} has no topic {topic}: it has {topics}")
        return of_topic
    asked = [checked(terminal, topic, each) for each in sorted(set(partitions))]
    for each in asked:
        if each not in known:
            terminal.fail(f"{view.folder} has nothing of {each.folder_name}; nothing was changed")
    return asked


def _planned(
    folder: Path, settings: CleaningSettings, asked: Collection[TopicPartition]
) -> tuple[tuple[Repair, ...], Mapping[TopicPartition, Damage]]:
    survey = planned_repairs(
        OsFiles(),
        folder,
        settings.store,
        asked,
        clock=SystemClock(),
        random=random.SystemRandom(),
    )
    return survey.repairs, survey.damaged


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


def _rows_by_group(
    losses: Mapping[TopicPartition, Losses], repairs: Sequence[Repair]
) -> Iterator[dict[str, object]]:
    for topic_partition in (each.topic_partition for each in repairs):
        for loss in losses[topic_partition].known if topic_partition in losses else ():
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
        "missing": _listed(found.missing),
        "missing_count": len(found.missing),
    }
    if losses is not None:
        what["groups"] = _listed(losses.group_ids)
        what["group_count"] = len(losses.group_ids)
        what["unreadable"] = _listed(losses.unreadable_parts)
        what["unreadable_count"] = len(losses.unreadable_parts)
    return what


def _listed(texts: Sequence[str]) -> list[str]:
    """The first of the texts, as many as an audit event has room for."""
    first = texts[:_LISTED_MAX]
    ends = itertools.accumulate(len(json.dumps(each)) for each in first)
    return [each for each, end in zip(first, ends, strict=True) if end <= _LIST_BYTES_MAX]


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
                "; any group of this log partition may have lost records in what cannot be"
                " trusted: " + ", ".join(losses.unreadable_parts)
            )
    return text

"""The journal of a plan: a file next to it, so that a killed step can be continued.

Each line has a CRC-32, and is fsynced before its step is reported. A torn last line was never
reported: readers skip it, and the next writer cuts it off. Only one process at a time can open the
journal.
"""

import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from offsetd_clients.migration.durable_files import LockedFile, sync_folder
from offsetd_clients.migration.followed_writes import STEP as FOLLOWING
from offsetd_clients.migration.followed_writes import FollowedWrites
from offsetd_clients.migration.values import FoundOffset, MigrationError

_SHORTENED_BYTES_MIN = 16 * 1024 * 1024
"""A journal is shortened if it is above this size, and twice as large as after the last time."""


class Step(StrEnum):
    """The steps that a group of a plan can take."""

    RUN = "run"
    CUTOVER = "cutover"
    ROLLBACK = "rollback"
    UNDO = "undo"


NOT_MARKED = {"marked": False}
"""The result of a cutover that was undone: the group still lives at its source."""


class JournalBusy(MigrationError):
    """Another process works with the plan."""


class PlanBegun(MigrationError):
    """The plan may not be replaced: it has steps, and only this plan can undo them."""


class BadJournal(MigrationError):
    """A line inside the file is damaged, or the file belongs to another plan."""


@attrs.frozen(kw_only=True)
class Entry:
    """The latest state of a group's step: begun, or done.

    `details` has its input (the offsets before the step), and `result` its outcome.
    """

    step: Step
    group_id: str
    attempt: int
    is_done: bool
    details: Any = None
    result: Any = None


class Journal:
    """The entries of one plan.

    In memory it holds only the positions of each group's newest lines.
    """

    def __init__(self, file: LockedFile) -> None:
        """Use `open`."""
        self.path = file.path
        self._file = file
        self._begun: dict[str, dict[Step, int]] = {}
        self._done: dict[str, dict[Step, int]] = {}
        self._newest: dict[str, Step] = {}
        self._plan_id = ""
        self._shortened_at = _SHORTENED_BYTES_MIN
        self.followed = FollowedWrites()

    @classmethod
    def open(cls, plan_path: Path, plan_id: str) -> "Journal":
        """Opens `PLAN.journal`, or creates it. Raises JournalBusy, BadJournal, OSError."""
        file = _locked(plan_path)
        journal = cls(file)
        try:
            journal._load(plan_id)
        except BaseException:
            file.close()
            raise
        return journal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def latest(self, step: Step, group_id: str) -> Entry | None:
        """The newest attempt of a step. None if it was never begun."""
        begun_at = self._begun.get(group_id, {}).get(step)
        if begun_at is None:
            return None
        begun = self._read(begun_at)
        done_at = self._done.get(group_id, {}).get(step, -1)
        is_done = done_at > begun_at
        return Entry(
            step=step,
            group_id=group_id,
            attempt=begun["attempt"],
            is_done=is_done,
            details=begun["details"],
            result=self._read(done_at)["result"] if is_done else None,
        )

    def newest_step(self, group_id: str) -> Step | None:
        """The step of a group that was begun last."""
        return self._newest.get(group_id)

    def is_begun_behind(self, step: Step, other: Step, group_id: str) -> bool:
        """Whether `step` was begun after the newest attempt of `other`."""
        begun = self._begun.get(group_id, {})
        return begun.get(step, -1) > begun.get(other, -1)

    def is_cut_over(self, group_id: str) -> bool:
        """Whether the newest offsets of the group may be in offsetd only.

        True if a cutover was begun (also if it did not finish), and was not undone or rolled back.
        """
        cut_over = self.latest(Step.CUTOVER, group_id)
        if cut_over is None or cut_over.result == NOT_MARKED:
            return False
        back = self.latest(Step.ROLLBACK, group_id)
        is_back = back is not None and back.is_done
        return not (is_back and self.is_begun_behind(Step.ROLLBACK, Step.CUTOVER, group_id))

    def begin(self, step: Step, group_id: str, details: Any) -> Entry:
        """Durably begins a step with these details, as a new attempt."""
        before = self.latest(step, group_id)
        attempt = before.attempt + 1 if before else 1
        at = self._append({"step": step, "group": group_id, "attempt": attempt, "details": details})
        self._note({"step": step, "group": group_id, "details": None}, at)
        return Entry(step=step, group_id=group_id, attempt=attempt, is_done=False, details=details)

    def finish(self, entry: Entry, result: Any) -> None:
        """Durably finishes a step."""
        at = self._append({"step": entry.step, "group": entry.group_id, "result": result})
        self._note({"step": entry.step, "group": entry.group_id, "result": result}, at)

    def begin_following(self, group_id: str, offsets: Sequence[FoundOffset]) -> str:
        """Durably notes the offsets that a mirror or a cutover will store next.

        They are in order of topic and partition.

        Returns the id for the request that stores them.
        """
        if self._file.size > self._shortened_at:
            self._shorten()
        document = self.followed.begun(group_id, offsets)
        self._append(document)
        self.followed.note(document)
        return _request_id(self._plan_id, FOLLOWING, group_id, document["attempt"])

    def finish_following(self, group_id: str, revision: int | None) -> None:
        """Notes that these offsets are stored, the last one at `revision` (None if none is stored).

        This is not durable: if the line is lost, `FollowedWrites` recognises the offsets in the
        store.
        """
        document = {"step": FOLLOWING, "group": group_id, "result": {"revision": revision}}
        self._append(document, is_durable=False)
        self.followed.note(document)

    def _shorten(self) -> None:
        """Merges all lines of mirrors into one for each group. All other lines stay."""
        self._file = self._file.replaced(self._short_lines())
        self._begun, self._done, self._newest = {}, {}, {}
        self.followed = FollowedWrites()
        self._load(self._plan_id)
        self._shortened_at = max(_SHORTENED_BYTES_MIN, 2 * self._file.size)

    def _short_lines(self) -> Iterator[bytes]:
        for line in self._file.lines():
            document = _document(line)
            if document is not None and document.get("step") != FOLLOWING:
                yield line
        yield from map(_line, self.followed.documents())

    def _load(self, plan_id: str) -> None:
        self._plan_id = plan_id
        position = 0
        lines = self._file.lines()
        for line in lines:
            document = _document(line)
            if document is None:
                if next(lines, None) is not None:
                    raise BadJournal(f"{self.path}: damaged at byte {position}")
                break  # A torn line: its writer was killed before it reported the step.
            if position:
                self._note(document, position)
            elif document.get("plan_id") != plan_id:
                raise BadJournal(f"{self.path} is that of another plan: move it away")
            position += len(line)
        self._file.cut(position)
        if position == 0:
            self._append({"plan_id": plan_id})
            sync_folder(self.path.parent)

    def _note(self, document: dict[str, Any], position: int) -> None:
        if document["step"] == FOLLOWING:
            self.followed.note(document)
            return
        step, group_id = Step(document["step"]), document["group"]
        if "details" in document:
            self._begun.setdefault(group_id, {})[step] = position
            self._newest[group_id] = step
        else:
            self._done.setdefault(group_id, {})[step] = position

    def _append(self, document: dict[str, Any], *, is_durable: bool = True) -> int:
        return self._file.append(_line(document), is_durable=is_durable)

    def _read(self, position: int) -> dict[str, Any]:
        document = _document(self._file.line_at(position))
        if document is None:
            raise BadJournal(f"{self.path}: damaged at byte {position}")
        return document


def make_room(plan_path: Path) -> None:
    """Makes room for another plan at this path: removes a journal without steps.

    Raises PlanBegun if the journal has steps, JournalBusy, OSError.
    """
    file = _locked(plan_path)
    try:
        if len(list(islice(file.lines(), 2))) > 1:
            raise PlanBegun(
                f"{plan_path} was begun, as {file.path} says: name another file, or move both away"
            )
        file.remove()
    finally:
        file.close()


def request_id_of(plan_id: str, entry: Entry) -> str:
    """The request id of an attempt.

    It stays the same after a kill, and differs between attempts.
    """
    return _request_id(plan_id, entry.step, entry.group_id, entry.attempt)


def _request_id(plan_id: str, step: str, group_id: str, attempt: int) -> str:
    named = "\0".join((plan_id, step, group_id, str(attempt)))
    return "migrate-" + hashlib.sha256(named.encode()).hexdigest()[:40]


def _locked(plan_path: Path) -> LockedFile:
    path = plan_path.with_name(f"{plan_path.name}.journal")
    try:
        return LockedFile(path)
    except BlockingIOError:
        raise JournalBusy(f"{path}: another process works with this plan") from None


def _line(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _document(line: bytes) -> dict[str, Any] | None:
    """The content of a line; None if it is torn or damaged."""
    if not line.endswith(b"\n") or line[8:9] != b" ":
        return None
    text = line[9:-1]
    try:
        if int(line[:8], 16) != zlib.crc32(text):
            return None
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None

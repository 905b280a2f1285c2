"""The contents of a target: manifests, chunks, and marks of work that goes on.

A backup and a prune exclude each other: each first puts a mark, then looks for marks of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import attrs

from offsetd_storage.backups.backup_errors import BackupBlocked, BackupDamaged, BackupRefused
from offsetd_storage.backups.manifest import (
    Manifest,
    checked_id,
    digest_of,
    is_backup_id,
)
from offsetd_storage.backups.targets import is_unfinished
from offsetd_storage.errors import NewerFormat

if TYPE_CHECKING:
    from collections.abc import Collection

    from offsetd_storage.backups.targets import Target

_CHUNKS: Final = "chunks/"
_MANIFESTS: Final = "manifests/"
_BACKUP_MARKS: Final = "running/backup-"
_PRUNE_MARK: Final = "running/prune"
_RUNNING: Final = "running/"
_SUFFIX: Final = ".json"
_DIGEST_CHARACTERS: Final = 64
MARK_MS_MAX: Final = 86_400_000
"""A mark that is older was left by a process that was killed."""


class ListedBackup(NamedTuple):
    """A backup. `manifest` is None if it cannot be used, for the reason in `problem`."""

    backup_id: str
    manifest: Manifest | None
    problem: str = ""


class Prune(NamedTuple):
    """The plan of a prune: the backups to remove, the oldest first, and chunks with their size.

    `lacking_ids` are kept ones that lack chunks.
    """

    backup_ids: tuple[str, ...]
    kept_ids: tuple[str, ...]
    lacking_ids: tuple[str, ...]
    chunks: tuple[str, ...]
    chunk_bytes: int
    leftovers: tuple[str, ...]


@attrs.define
class Repository:
    """The backups of a target. All methods raise TargetFailed."""

    target: Target

    # Manifests -------------------------------------------------------------------------------

    def backup_ids(self) -> list[str]:
        """All backups, the oldest first. One that was broken off is not among them."""
        names = (
            each.name.removeprefix(_MANIFESTS).removesuffix(_SUFFIX)
            for each in self.target.objects(_MANIFESTS)
            if each.name.endswith(_SUFFIX)
        )
        return sorted(filter(is_backup_id, names))

    def backups(self) -> list[ListedBackup]:
        """All backups, the oldest first, also damaged ones."""
        found = []
        for each in self.backup_ids():
            try:
                found.append(ListedBackup(each, self.manifest(each)))
            except (BackupDamaged, NewerFormat) as error:
                found.append(ListedBackup(each, None, str(error)))
        return found

    def manifest(self, backup_id: str) -> Manifest:
        """The manifest of a backup. Raises BackupRefused, BackupDamaged, NewerFormat."""
        name = f"{_MANIFESTS}{checked_id(backup_id)}{_SUFFIX}"
        content = self.target.get(name)
        if content is None:
            raise BackupRefused(f"{self.target.address} has no backup {backup_id}")
        return Manifest.decode(content, name)

    def newest_id(self) -> str:
        """The newest backup. Raises BackupBlocked if there is none."""
        ids = self.backup_ids()
        if not ids:
            raise BackupBlocked(f"{self.target.address} has no backup")
        return ids[-1]

    def require_any(self) -> None:
        """Raises BackupBlocked for a target without backups, and without parts of any."""
        if not (self.backup_ids() or self.chunks()):
            raise BackupBlocked(f"{self.target.address} has no backup")

    def put_manifest(self, backup_id: str, manifest: Manifest) -> None:
        """Makes a backup whole: its chunks are durable before, and the backup is afterwards."""
        self.target.settle()
        self.target.put(f"{_MANIFESTS}{backup_id}{_SUFFIX}", manifest.encode())
        self.target.settle()

    # Chunks ----------------------------------------------------------------------------------

    def chunks(self) -> dict[str, int]:
        """The sizes of all chunks, by digest."""
        return {
            name: each.size_bytes
            for each in self.target.objects(_CHUNKS)
            if len(name := each.name.rpartition("/")[2]) == _DIGEST_CHARACTERS
        }

    def reusable_chunks(self) -> dict[str, int]:
        """The chunks that a new backup need not write; those that a killed one left whole, too."""
        self.target.complete(_CHUNKS, _is_chunk)
        return self.chunks()

    def put_chunk(self, digest: str, content: bytes) -> None:
        """Adds a chunk. It is there after `settle` of the target."""
        self.target.put(_chunk_name(digest), content)

    def chunk(self, digest: str) -> bytes:
        """A chunk's bytes, checked. Raises BackupDamaged."""
        content = self.target.get(_chunk_name(digest))
        if content is None:
            raise BackupDamaged(f"{_chunk_name(digest)} is missing")
        if digest_of(content) != digest:
            raise BackupDamaged(f"{_chunk_name(digest)} differs from its checksum")
        return content

    # Work that goes on -----------------------------------------------------------------------

    def begin_backup(self, folder_id: str, *, now_ms: int) -> None:
        """Marks a backup of this folder. Raises BackupBlocked while a prune goes on."""
        self.target.put(_mark_name(folder_id), str(now_ms).encode())
        self.target.settle()
        if self._marks(_PRUNE_MARK, now_ms):
            self.end_backup(folder_id, begun_ms=now_ms)
            raise BackupBlocked(f"{self.target.address} is being pruned: try again")

    def check_backup(self, folder_id: str, *, begun_ms: int) -> None:
        """Raises BackupBlocked if the mark of `begin_backup` is not there any more.

        Then a prune took the backup for one that was killed, or another backup of the same folder
        began since, and a prune may have followed it.
        """
        if not self._has_mark(folder_id, begun_ms):
            raise BackupBlocked(
                f"{self.target.address} was pruned while the backup went on, or another backup of"
                " the same folder began: make it again"
            )

    def end_backup(self, folder_id: str, *, begun_ms: int) -> None:
        """Removes the mark of `begin_backup`. That of a later backup stays."""
        if self._has_mark(folder_id, begun_ms):
            self.target.remove(_mark_name(folder_id))
            self.target.settle()

    def _has_mark(self, folder_id: str, begun_ms: int) -> bool:
        return self.target.get(_mark_name(folder_id)) == str(begun_ms).encode()

    def unended_since(self, *, now_ms: int) -> int | None:
        """When the newest backup began that goes on, or was killed, and so stops a prune.

        None without one. It changes nothing.
        """
        return max(self._young_marks(_BACKUP_MARKS, now_ms).values(), default=None)

    def planned_prune(self, keep: int) -> Prune:
        """The plan of `prune`: it removes backups older than the newest `keep` whole backups.

        A backup that lacks chunks is not whole. Raises BackupDamaged, NewerFormat: a manifest that
        cannot be read among the kept ones stops it, as which chunks it needs is not known.
        """
        chunks = self.chunks()
        kept: list[str] = []
        needed: set[str] = set()
        lacking: list[str] = []
        ids = self.backup_ids()
        while ids and len(kept) - len(lacking) < keep:
            kept.insert(0, ids.pop())
            manifest = self._kept_manifest(kept[0])
            needed |= manifest.digests
            if manifest.lacking(chunks) is not None:
                lacking.insert(0, kept[0])
        gone = sorted(chunks.keys() - needed)
        known = {_chunk_name(each) for each in chunks}
        leftovers = [
            each.name
            for folder in (_CHUNKS, _MANIFESTS)
            for each in self.target.objects(folder)
            if each.name not in known and not _is_manifest(each.name)
        ]
        return Prune(
            tuple(ids),
            tuple(kept),
            tuple(lacking),
            tuple(gone),
            sum(chunks[each] for each in gone),
            tuple(leftovers),
        )

    def _kept_manifest(self, backup_id: str) -> Manifest:
        try:
            return self.manifest(backup_id)
        except BackupDamaged as error:
            raise BackupDamaged(
                f"{error}; which chunks backup {backup_id} needs is not known: remove"
                f" {_MANIFESTS}{backup_id}{_SUFFIX} of {self.target.address}, then prune again"
            ) from error

    def prune(self, keep: int, *, now_ms: int) -> Prune:
        """Removes all backups but the newest `keep` whole ones, and chunks that no backup needs.

        Raises BackupBlocked while a backup or another prune goes on; the errors of
        `planned_prune`.
        """
        if others := self._marks(_PRUNE_MARK, now_ms):
            raise BackupBlocked(f"{self.target.address} is being pruned ({others[0]})")
        try:
            self.target.put(_PRUNE_MARK, str(now_ms).encode())
            self.target.settle()
            if others := self._marks(_BACKUP_MARKS, now_ms):
                raise BackupBlocked(
                    f"{self.target.address}: a backup goes on ({others[0]}); if it was killed, make"
                    " another one, or wait a day"
                )
            plan = self.planned_prune(keep)
            self._remove([f"{_MANIFESTS}{each}{_SUFFIX}" for each in plan.backup_ids])
            self._remove([*map(_chunk_name, plan.chunks), *plan.leftovers])
        finally:
            try:
                self._remove([_PRUNE_MARK])
            except BaseException:  # A signal may come here, too.
                self._remove([_PRUNE_MARK])
                raise
        return plan

    def _remove(self, names: Collection[str]) -> None:
        for name in names:
            self.target.remove(name)
        self.target.settle()

    def _marks(self, prefix: str, now_ms: int) -> list[str]:
        """The marks with this prefix. Old ones are removed."""
        young = self._young_marks(prefix, now_ms)
        for each in self.target.objects(_RUNNING):
            if (
                each.name.startswith(prefix)
                and each.name not in young
                and not is_unfinished(each.name)
            ):
                self.target.remove(each.name)
        return list(young)

    def _young_marks(self, prefix: str, now_ms: int) -> dict[str, int]:
        """The times of the marks with this prefix that are not too old, by name.

        An unfinished mark is none yet: who writes it looks for the other's mark afterwards.
        """
        found = {}
        for each in self.target.objects(_RUNNING):
            if not each.name.startswith(prefix) or is_unfinished(each.name):
                continue
            since_ms = (self.target.get(each.name) or b"").decode(errors="replace")
            if since_ms.isdecimal() and now_ms - int(since_ms) <= MARK_MS_MAX:
                found[each.name] = int(since_ms)
        return found


def _mark_name(folder_id: str) -> str:
    # The id of a cluster may have a slash, which would make a folder.
    return _BACKUP_MARKS + quote(folder_id, safe="")


def _chunk_name(digest: str) -> str:
    return f"{_CHUNKS}{digest[:2]}/{digest}"


def _is_chunk(name: str, content: bytes) -> bool:
    return name == _chunk_name(digest_of(content))


def _is_manifest(name: str) -> bool:
    return is_backup_id(name.removeprefix(_MANIFESTS).removesuffix(_SUFFIX))

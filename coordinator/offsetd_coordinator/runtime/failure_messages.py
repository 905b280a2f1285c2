"""The reasons why a server stops by itself, in words for its log, its callers and its operator."""

from __future__ import annotations

from typing import Final

from offsetd_storage.errors import DescriptorsExhausted, FilesGone, FolderGone, StorageFailed

from offsetd_coordinator.errors import StorageUnavailable
from offsetd_coordinator.runtime.commit_log import NodeFenced, OutcomeUnknown
from offsetd_coordinator.runtime.flusher import FlushDefect

# The first entry that fits is used: the cause, and the state of acknowledged changes.
_ENDINGS: Final[tuple[tuple[type[StorageFailed], str, str], ...]] = (
    (
        NodeFenced,
        "the node was fenced: another process has its node.id, or the cluster's topic is gone",
        "the cluster has all that was acknowledged",
    ),
    (
        OutcomeUnknown,
        "the brokers do not say whether a transaction was committed",
        "the cluster has all that was acknowledged, and perhaps what was not",
    ),
    (
        FlushDefect,
        "a defect of the server",
        "its log shows it, and nothing that may be lost was acknowledged",
    ),
    (
        FolderGone,
        "the data folder was moved away, deleted or replaced while the server ran",
        "all that was acknowledged went to the folder that the server had opened",
    ),
    (
        FilesGone,
        "files of the data folder were removed or replaced while the server ran",
        "what was acknowledged is in the segments that are still there, and perhaps not in others",
    ),
    (
        DescriptorsExhausted,
        "too many files are open: raise the limit (ulimit -n), or lower max.connections",
        "the disk is well, and nothing that may be lost was acknowledged",
    ),
    (StorageFailed, "the disk failed", "nothing that it may have lost was acknowledged"),
)


def what_happened(error: StorageFailed) -> str:
    """A short description of the cause, without the error's own text."""
    return next(what for kind, what, _ in _ENDINGS if isinstance(error, kind))


def unavailable(error: StorageFailed) -> StorageUnavailable:
    """The error for one caller. Each gets a new one, because a shared one collects tracebacks."""
    return StorageUnavailable(
        "{why}, the server stops: {cause}", why=what_happened(error), cause=error
    )


def last_words(error: StorageFailed) -> str:
    """The last line that a server prints."""
    what, holds = next(told for kind, *told in _ENDINGS if isinstance(error, kind))
    return f"{what}; {holds}: {error}"

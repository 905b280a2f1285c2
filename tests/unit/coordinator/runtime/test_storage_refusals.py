"""Why a server ends by itself, as it is told."""

from __future__ import annotations

import errno
import os

import pytest
from offsetd_coordinator.errors import CoordinatorNotAvailable, DiskFull
from offsetd_coordinator.runtime.flusher import as_storage_failed
from offsetd_coordinator.runtime.storage_refusals import append_refusal, last_words, unavailable
from offsetd_storage.disk.failure_latch import FailureLatch
from offsetd_storage.errors import StorageFailed, StorageFull


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (errno.EIO, "the disk failed; nothing that it may have lost was acknowledged"),
        (errno.EMFILE, "too many files are open: raise the limit (ulimit -n)"),
        (errno.ENFILE, "too many files are open"),
        (errno.ESTALE, "the data folder was moved away, deleted or replaced"),
    ],
)
def test_it_is_told_what_happened_and_where_without_numbers(code: int, what: str) -> None:
    latch = FailureLatch()
    with pytest.raises(StorageFailed, match=os.strerror(code)), latch.fail_stop():
        raise OSError(code, os.strerror(code), "offsetd-journal.0")
    assert latch.failed is not None
    told = last_words(as_storage_failed(latch.failed))
    assert told.startswith(what)
    assert told.endswith(f"{os.strerror(code)} (offsetd-journal.0)")
    assert "Errno" not in told
    assert what.partition(";")[0] in str(unavailable(latch.failed))


def test_a_defect_is_told_as_one() -> None:
    told = last_words(as_storage_failed(ZeroDivisionError("ours")))
    assert told.startswith("a defect of the server; its log shows it")


def test_a_batch_that_finds_no_descriptor_is_not_refused_for_a_full_disk() -> None:
    for code, expected in ((errno.ENOSPC, DiskFull), (errno.EMFILE, CoordinatorNotAvailable)):
        full = StorageFull("no room for a batch")
        full.__cause__ = OSError(code, os.strerror(code))
        assert type(append_refusal(full, 0)) is expected

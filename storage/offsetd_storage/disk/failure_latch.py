"""The first failure of the disk. After it, nothing is acknowledged any more."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from offsetd_storage.errors import StorageFailed, storage_failed

if TYPE_CHECKING:
    from collections.abc import Iterator


class FailureLatch:
    """Keeps the first failure. Any thread may call it.

    A failed sync is never tried again: the kernel marks the pages clean, so the next sync succeeds
    without having written them.
    """

    def __init__(self) -> None:
        self.failed: StorageFailed | None = None

    def latch(self, error: BaseException) -> StorageFailed:
        """Notes a failure, if it is the first, so that everything later is refused.

        Returns the StorageFailed of the first failure; its cause is that failure. Later
        refusals have the same cause.
        """
        if self.failed is None:
            self.failed = storage_failed(error)
        return self.failed

    def refuse_if_failed(self) -> None:
        """Raises StorageFailed after a failure."""
        if self.failed is not None:
            raise type(self.failed)(str(self.failed)) from self.failed

    @contextmanager
    def fail_stop(self) -> Iterator[None]:
        """Raises after a failure, and latches any error in the block."""
        self.refuse_if_failed()
        try:
            yield
        except OSError as error:
            raise self.latch(error) from error
        except BaseException as error:
            self.latch(error)
            raise

    @contextmanager
    def latching(self) -> Iterator[None]:
        """Guards work on segments outside of the store.

        Raises after a failure, and latches a StorageFailed in the block. Other errors pass.
        """
        self.refuse_if_failed()
        try:
            yield
        except StorageFailed as error:
            self.latch(error)
            raise

"""The first failure of the disk: after it nothing is acknowledged any more."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from offsetd_storage.errors import StorageFailed, storage_failed

if TYPE_CHECKING:
    from collections.abc import Iterator


class FailureLatch:
    """Keeps the first failure. For any thread.

    A failed sync is never tried again: the kernel marks the pages clean, and the next sync succeeds
    without having written them.
    """

    def __init__(self) -> None:
        self.failed: StorageFailed | None = None

    def latch(self, error: BaseException) -> StorageFailed:
        """From now on everything is refused; returns the failure that counts, which is the first.

        Whoever is refused later can tell by its cause what it was.
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
        """Refuses after a failure, and makes whatever goes wrong in the block one."""
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
        """For what changes segments beside the store: it is refused after a failure, and a
        StorageFailed in the block is one of the whole store. Other errors just pass.
        """
        self.refuse_if_failed()
        try:
            yield
        except StorageFailed as error:
            self.latch(error)
            raise

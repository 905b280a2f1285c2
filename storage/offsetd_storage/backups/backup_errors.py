"""Errors of backups and restores."""

from offsetd_storage.errors import StorageError


class BackupDamaged(StorageError):
    """A part of a backup is missing, or differs from its checksum."""


class BackupRefused(StorageError):
    """A backup, or a restore, that cannot be done as asked. Nothing was changed."""


class BackupBlocked(BackupRefused):
    """The target, the disk or other work is in the way: the same request can succeed later."""


class TargetFailed(StorageError):
    """The place of the backups could not be read or written."""

    retriable = True


class WrongTarget(TargetFailed):
    """An address at which nothing can be kept, until somebody changes it or this machine."""

    retriable = False

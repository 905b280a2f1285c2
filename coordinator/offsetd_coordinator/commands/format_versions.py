"""The versions of everything that offsetd writes, for `offsetd version --all`."""

from offsetd_storage.backups.manifest import FORMAT_VERSION as BACKUP_VERSION
from offsetd_storage.folder.checkpoint_files import CHECKPOINT_VERSION
from offsetd_storage.folder.folder_format import FOLDER_FORMAT_VERSION
from offsetd_storage.journal.journal_format import FORMAT_VERSION as JOURNAL_VERSION
from offsetd_storage.log.segment_list import SEGMENT_LIST_VERSION
from offsetd_storage.recovery.quarantine import QUARANTINE_FORMAT_VERSION

from offsetd_coordinator.administration.audit import AUDIT_VERSION
from offsetd_coordinator.administration.repair_journal import REPAIRS_VERSION
from offsetd_coordinator.configuration.config_record import VERSION as SETTINGS_VERSION
from offsetd_coordinator.expiry.uptime_marker import LAST_UP_VERSION


def format_versions() -> dict[str, int]:
    """The version that this release writes, by the name of the format."""
    return {
        "folder": FOLDER_FORMAT_VERSION,
        "journal": JOURNAL_VERSION,
        "segment list": SEGMENT_LIST_VERSION,
        "quarantine": QUARANTINE_FORMAT_VERSION,
        "last-up": LAST_UP_VERSION,
        "repairs": REPAIRS_VERSION,
        "checkpoints": CHECKPOINT_VERSION,
        "settings": SETTINGS_VERSION,
        "audit": AUDIT_VERSION,
        "backup": BACKUP_VERSION,
    }

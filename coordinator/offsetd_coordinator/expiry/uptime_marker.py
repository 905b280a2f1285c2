"""The file `offsetd.last-up` has the time at which the server last ran.

It shows how long a stop was. File times do not, because copying a folder renews them. Records do
not if nobody commits. The file has lines `name=value`; the last one is a checksum of those before
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.disk.checksums import checksum
from offsetd_storage.disk.files import read_start, replace_file
from offsetd_storage.errors import NewerFormat

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.log_store import LogStore

LAST_UP_NAME: Final = "offsetd.last-up"
LAST_UP_VERSION: Final = 1

_VERSION: Final = "format.version"
_UP: Final = "up.ms"
_GRACE_UNTIL: Final = "expiry.grace.until.ms"
_BYTES_MAX: Final = 4096
_UNNOTED_MS_MAX: Final = 86_400_000


@attrs.frozen(kw_only=True)
class UptimeMarker:
    """The last time the server was up, and the end of its grace period, by the server's time."""

    up_ms: int
    grace_until_ms: int


UNREADABLE: Final = UptimeMarker(up_ms=0, grace_until_ms=2**63 - 1)


def read_marker(files: Files, folder: Path) -> UptimeMarker | None:
    """The file's contents, or None if there is no file. Raises NewerFormat, OSError.

    Without the file, the newest record has the last time at which the server was up. If the
    contents are invalid, the result gives the longest possible grace period.
    """
    path = folder / LAST_UP_NAME
    if not files.exists(path):
        return None
    content = read_start(files, path, _BYTES_MAX)
    body, _, _ = content.rpartition(b"checksum=")
    if content != _with_checksum(body):
        return UNREADABLE
    lines = dict(line.split("=", 1) for line in body.decode("ascii").splitlines())
    version = lines.get(_VERSION, "")
    if version.isdigit() and int(version) > LAST_UP_VERSION:
        raise NewerFormat.of(path, version, LAST_UP_VERSION)
    if version != str(LAST_UP_VERSION):
        return UNREADABLE
    return UptimeMarker(up_ms=int(lines[_UP]), grace_until_ms=int(lines[_GRACE_UNTIL]))


def write_marker(files: Files, folder: Path, last_up: UptimeMarker) -> None:
    """Replaces the file, durably. Raises OSError."""
    lines = {
        _VERSION: LAST_UP_VERSION,
        _UP: last_up.up_ms,
        _GRACE_UNTIL: last_up.grace_until_ms,
    }
    body = "".join(f"{name}={value}\n" for name, value in lines.items()).encode()
    replace_file(files, folder / LAST_UP_NAME, _with_checksum(body))


def recorded_ms(newest_record_ms: int | None, last_up: UptimeMarker | None) -> int | None:
    """The time at which a server of this folder was last up; None if that is not known.

    It is the time in the file, or that of a later record. A record more than a day later does not
    count: another server or a wrong clock stamped it.
    """
    if last_up is None:
        return None
    if newest_record_ms is None or newest_record_ms > last_up.up_ms + _UNNOTED_MS_MAX:
        return last_up.up_ms
    return max(newest_record_ms, last_up.up_ms)


def newest_record_ms(store: LogStore) -> int | None:
    """The largest timestamp of any record in the folder's logs; None if they have no records."""
    times = (
        segment.largest_timestamp_ms for log in store.logs.values() for segment in log.segments
    )
    newest_ms = max(times, default=-1)
    return newest_ms if newest_ms >= 0 else None


def _with_checksum(body: bytes) -> bytes:
    return body + f"checksum={checksum(body):08x}\n".encode()

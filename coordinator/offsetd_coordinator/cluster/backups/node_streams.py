"""The client by which a node reads the parts of all nodes.

Clients follow the owners of log partitions, and know TLS and tokens. The server does not import
them: the package of the clients names its client as an entry point.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

from offsetd_storage.backups.backup_errors import BackupRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from offsetd.v1.backup_service_pb2 import BackupHead, StreamBackupResponse

    from offsetd_coordinator.configuration.server_settings import Settings

_ENTRY_POINTS: Final = "offsetd.cluster_backups"
_FIRST_ANSWER_SECONDS: Final = 10.0


class NodeStreams(Protocol):
    """A client of all nodes."""

    def streams(
        self, held_digests: Iterable[bytes]
    ) -> Sequence[tuple[BackupHead, Iterator[StreamBackupResponse]]]:
        """The head and the chunks of each node, those of the first address first. Blocks.

        This and the iterators raise ConnectionError if a node refuses or cannot be reached.
        """

    def close(self) -> None:
        """Ends all calls. For any thread."""


def connected(settings: Settings, address: str) -> NodeStreams:
    """A client that begins at `address`, with the identity that `backup.client.*` names.

    Its files are read now. Raises BackupRefused, OSError and ValueError.
    """
    points = entry_points(group=_ENTRY_POINTS)
    if not points:
        raise BackupRefused("offsetd is not installed as a whole: its client is missing")
    client: Any = next(iter(points)).load()
    streams: NodeStreams = client(
        address,
        has_tls=settings.has_tls,
        ca_file=settings.backup_client_ca_file,
        certificate_file=settings.backup_client_certificate_file,
        key_file=settings.backup_client_key_file,
        token_file=settings.backup_client_token_file,
        token_without_tls=settings.security_allow_insecure,
        timeout_s=_FIRST_ANSWER_SECONDS,
    )
    return streams

"""The backups of all nodes, for a server that makes the backups of its cluster.

The server's package does not import this one: it finds it by the entry point
`offsetd.cluster_backups`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from offsetd.v1.backup_service_pb2 import BackupHead

from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.calling.security import TlsOptions
from offsetd_clients.errors import OffsetdError
from offsetd_clients.sync.client import OffsetClient


class ClusterBackupClient:
    """A client of one node, which follows it to the others. `close` is for any thread."""

    def __init__(
        self,
        address: str,
        *,
        has_tls: bool,
        ca_file: str = "",
        certificate_file: str = "",
        key_file: str = "",
        token_file: str = "",
        token_without_tls: bool = False,
        timeout_s: float,
    ) -> None:
        """A file without a name is none. `timeout_s`: for the first answer of each node.

        Raises OSError and ValueError for files that cannot be used, ConnectionError if a token
        would be sent where others can read it.
        """
        tls = TlsOptions(
            ca=_content(ca_file), certificate=_content(certificate_file), key=_content(key_file)
        )
        token = _content(token_file)
        try:
            self._client = OffsetClient(
                address,
                retry=RetryPolicy(timeout_s=timeout_s),
                stream_commits=False,
                tls=tls if has_tls else None,
                token=None if token is None else token.decode().strip(),
                token_without_tls=token_without_tls,
            )
        except OffsetdError as error:
            raise _told(error) from error

    def streams(self, held_digests: Iterable[bytes]) -> list[tuple[BackupHead, Iterator[Any]]]:
        """See `OffsetClient.stream_backups`.

        Raises ConnectionError if a node refuses or cannot be reached. So do the answers.
        """
        try:
            found = self._client.stream_backups(held_digests)
        except OffsetdError as error:
            raise _told(error) from error
        return [(head, _answers(answers)) for head, answers in found]

    def close(self) -> None:
        """Ends all calls: streams that are being read raise ConnectionError."""
        self._client.close(0)


def _content(file: str) -> bytes | None:
    return Path(file).read_bytes() if file else None


def _answers(answers: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from answers
    except OffsetdError as error:
        raise _told(error) from error


def _told(error: OffsetdError) -> ConnectionError:
    reason = error.reason or error.code
    return ConnectionError(f"{reason}: {error}")

"""The connection to ZooKeeper, and the lock that only one migrator at a time can hold."""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import attrs
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, LockTimeout, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.hosts import collect_hosts

from offsetd_clients.migration.outcomes import MigrationStopped
from offsetd_clients.migration.values import MigrationError, Problem, SourceFailed
from offsetd_clients.migration.zookeeper.kazoo_tree import answered, is_connected
from offsetd_clients.migration.zookeeper.tree import Node, Tree, is_absent, joined

# The important errors are raised. Without this the library would also write to the user.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

STATE_ROOT_DEFAULT = "/offsetd-migration"
TIMEOUT_S_DEFAULT = 10.0


class LockHeld(MigrationError):
    """Another migrator works on this ZooKeeper."""


@attrs.frozen(kw_only=True)
class ZooKeeper:
    """Address and credentials of a ZooKeeper. `hosts` is `HOST:PORT,…[/CHROOT]`.

    `auth` has pairs of a scheme (`digest`, for example) and a credential. `timeout_s` is the
    timeout of the session, and of each answer. A plan keeps only the hosts.
    """

    hosts: str
    timeout_s: float = TIMEOUT_S_DEFAULT
    auth: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    is_tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    @contextmanager
    def connected(self, *, read_only: bool = False) -> Iterator[KazooClient]:
        """A session for the duration of a step. Raises SourceFailed."""
        _check_hosts(self.hosts)
        client = KazooClient(
            hosts=self.hosts,
            timeout=self.timeout_s,
            read_only=read_only,
            auth_data=list(self.auth),
            use_ssl=self.is_tls,
            ca=self.ca_file,
            certfile=self.certificate_file,
            keyfile=self.key_file,
            command_retry={"max_tries": 5, "max_delay": self.timeout_s},
        )
        try:
            client.start(timeout=self.timeout_s)
        except (KazooTimeoutError, KazooException, OSError) as error:
            client.close()
            raise SourceFailed(f"no ZooKeeper answers at {self.hosts}: {error}") from error
        try:
            yield client
        finally:
            client.stop()
            client.close()


@contextmanager
def migrator_lock(
    client: KazooClient, holder: str, *, root: str = STATE_ROOT_DEFAULT, wait_s: float
) -> Iterator["HeldLock"]:
    """Lets one migrator work at a time. Raises LockHeld after `wait_s`.

    A killed migrator holds the lock until its session ends.
    """
    held = HeldLock(client, holder, root, wait_s)
    try:
        yield held
    finally:
        held.release()


class HeldLock:
    """A lock that is checked before each change: if the session was lost, another may hold it."""

    def __init__(self, client: KazooClient, holder: str, root: str, wait_s: float) -> None:
        """Takes the lock.

        `wait_s` bounds the wait for it, or for a lost connection. Raises LockHeld.
        """
        self.is_lost = False
        self._client = client
        self._holder = holder
        self._root = root
        self._wait_s = wait_s
        self._lock = self._acquired()
        client.add_listener(self._note)

    def _acquired(self) -> Any:
        lock = self._client.Lock(joined(self._root, "lock"), identifier=self._holder)
        try:
            lock.acquire(timeout=self._wait_s)
        except LockTimeout:
            others = ", ".join(map(str, lock.contenders()[:1])) or "somebody"
            raise LockHeld(f"{others} is at work: one migrator at a time") from None
        except NoAuthError as error:
            text = f"{self._root}: we may not write there: name another --state-root"
            raise SourceFailed(text) from error
        return lock

    def release(self) -> None:
        """Releases the lock, if it is still ours."""
        if self._client.connected and not self.is_lost:
            self._lock.release()

    @property
    def is_to_be_regained(self) -> bool:
        """Whether ZooKeeper does not answer, or has ended the session."""
        return self.is_lost or not self._client.connected

    def regained(self) -> bool:
        """Waits some time for ZooKeeper, and takes the lock again. Returns False without an answer.

        Raises LockHeld if another migrator has it now, SourceFailed.
        """
        if not is_connected(self._client, self._wait_s):
            return False
        if self.is_lost:
            self.is_lost = False
            try:
                self._lock = self._acquired()
            except (KazooException, KazooTimeoutError):  # The connection is lost again.
                self.is_lost = True
                return False
        return True

    def _note(self, state: str) -> None:
        if state == KazooState.LOST:
            self.is_lost = True

    def check(self) -> None:
        """Raises MigrationStopped if the session has ended, or ZooKeeper does not answer."""
        if not is_connected(self._client, self._wait_s):
            raise MigrationStopped("ZooKeeper does not answer, and may give the lock to another")
        if self.is_lost:
            raise MigrationStopped("the session with ZooKeeper has ended, and the lock with it")


@attrs.frozen(kw_only=True)
class Marks:
    """Znodes that mark moved groups. A rollback removes them."""

    layout: str
    layout_root: str
    state_root: str = STATE_ROOT_DEFAULT

    def path(self, group_id: str) -> str:
        """The path of a group's mark, by its id at the source."""
        name = quote(f"{self.layout}:{self.layout_root}:{group_id}", safe="")
        return joined(self.state_root, "moved", name)

    def value(self, group_id: str, target_id: str, plan_id: str) -> bytes:
        """The content of a group's mark."""
        mark = {
            "group": group_id,
            "moved_to": target_id,
            "plan_id": plan_id,
            "time_ms": round(time.time() * 1000),
        }
        return json.dumps(mark, ensure_ascii=False).encode()

    def read(self, tree: Tree, group_ids: list[str]) -> dict[str, dict[str, Any]]:
        """The existing marks. Raises SourceFailed, also if access to one is denied."""
        nodes = tree.nodes(map(self.path, group_ids))
        found = {}
        for group_id in group_ids:
            node: Node | Problem = nodes[self.path(group_id)]
            if isinstance(node, Node):
                found[group_id] = _mark(node)
            elif not is_absent(node):
                raise SourceFailed(f"whether group {group_id!r} has moved: {node}")
        return found

    def ensure_root(self, client: KazooClient) -> None:
        """Creates the root. Raises SourceFailed."""
        root = joined(self.state_root, "moved")
        try:
            answered(client.ensure_path_async(root))
        except NoAuthError as error:
            raise SourceFailed(f"{root}: we may not write there") from error


def _mark(node: Node) -> dict[str, Any]:
    try:
        mark = json.loads(node.value)
    except ValueError:
        return {}
    return mark if isinstance(mark, dict) else {}


def synced(client: KazooClient, path: str) -> None:
    """Makes later reads see all earlier writes. Raises SourceFailed."""
    try:
        answered(client.sync_async(path))
    except NoNodeError:
        return
    except KazooException as error:
        raise SourceFailed(f"{path}: {type(error).__name__}: {error}") from error


def _check_hosts(hosts: str) -> None:
    """Raises SourceFailed for hosts with which the library would fail, or wait in vain."""
    try:
        for host, _ in collect_hosts(hosts)[0]:
            (host or "").encode("idna")
    except ValueError:
        raise SourceFailed(f"{hosts!r} is not HOST:PORT,…[/CHROOT]") from None

"""How a ZooKeeper is reached, and the lock that one migrator at a time holds."""

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

# What matters of it is raised; else it would talk to the user beside us.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

STATE_ROOT_DEFAULT = "/offsetd-migration"
TIMEOUT_S_DEFAULT = 10.0


class LockHeld(MigrationError):
    """Another migrator works on this ZooKeeper."""


@attrs.frozen(kw_only=True)
class ZooKeeper:
    """Where it is, and who we are. `hosts` is `HOST:PORT,…[/CHROOT]`.

    `auth` are pairs of scheme and credential, as of `digest`. `timeout_s` is the session's, and how
    long an answer may take. Nothing of this but the hosts is kept in a plan.
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
        """A session for as long as a step takes. Raises SourceFailed."""
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
    """One migrator at a time. Raises LockHeld after `wait_s`: one that was killed holds it until
    its session ends.
    """
    held = HeldLock(client, holder, root, wait_s)
    try:
        yield held
    finally:
        held.release()


class HeldLock:
    """Asked before each change: with the session the lock may have gone to another."""

    def __init__(self, client: KazooClient, holder: str, root: str, wait_s: float) -> None:
        """Takes it. `wait_s`: so long it, or a lost connection, is waited for. Raises LockHeld."""
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
        """For others, if it is still ours."""
        if self._client.connected and not self.is_lost:
            self._lock.release()

    @property
    def is_to_be_regained(self) -> bool:
        """Whether ZooKeeper does not answer, or has ended the session."""
        return self.is_lost or not self._client.connected

    def regained(self) -> bool:
        """Waits for ZooKeeper, for some time, and takes the lock again; False: it does not answer.

        Raises LockHeld if another has it by now, SourceFailed.
        """
        if not is_connected(self._client, self._wait_s):
            return False
        if self.is_lost:
            self.is_lost = False
            try:
                self._lock = self._acquired()
            except (KazooException, KazooTimeoutError):  # It has gone again.
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
    """Znodes that say that a group has moved; they go with a rollback."""

    layout: str
    layout_root: str
    state_root: str = STATE_ROOT_DEFAULT

    def path(self, group_id: str) -> str:
        """Of a group, by its id at the source."""
        name = quote(f"{self.layout}:{self.layout_root}:{group_id}", safe="")
        return joined(self.state_root, "moved", name)

    def value(self, group_id: str, target_id: str, plan_id: str) -> bytes:
        """What the mark of a group says."""
        mark = {
            "group": group_id,
            "moved_to": target_id,
            "plan_id": plan_id,
            "time_ms": round(time.time() * 1000),
        }
        return json.dumps(mark, ensure_ascii=False).encode()

    def read(self, tree: Tree, group_ids: list[str]) -> dict[str, dict[str, Any]]:
        """The marks that there are. Raises SourceFailed, also where we may not read one."""
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
        """Raises SourceFailed."""
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
    """What was written before is read behind this. Raises SourceFailed."""
    try:
        answered(client.sync_async(path))
    except NoNodeError:
        return
    except KazooException as error:
        raise SourceFailed(f"{path}: {type(error).__name__}: {error}") from error


def _check_hosts(hosts: str) -> None:
    """Raises SourceFailed for what the library would fail of, or wait for in vain."""
    try:
        for host, _ in collect_hosts(hosts)[0]:
            (host or "").encode("idna")
    except ValueError:
        raise SourceFailed(f"{hosts!r} is not HOST:PORT,…[/CHROOT]") from None

"""Compares commits over mTLS with access rules in force, and plain commits.

Two servers run at once, pinned to one core; the generator has another. The secured one has 10,000
rules of 1,000 principals, and each connection comes as another one of them. Workloads and numbers
of connections are the same for both. A ratio is that of secured to plain: of commits a second, and
of the server's CPU time a commit, in which the generator has no part.
"""

from __future__ import annotations

import functools
import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
from offsetd.v1 import offset_service_pb2

from benchmarks import commit_path
from benchmarks.harness import http2_load, rounds
from benchmarks.harness.tls_files import TlsFiles

if TYPE_CHECKING:
    from collections.abc import Callable

CALLERS: Final = 1024
STREAMS: Final = 16
UNARY_CONNECTIONS: Final = 64
PRINCIPALS: Final = 1000
RULES_OF_EACH: Final = 10
SECONDS: Final = 3.0


@attrs.frozen(kw_only=True)
class Load:
    """One measurement: commits a second, and microseconds of the server's CPU for each."""

    commits_a_second: float
    server_us: float

    def __str__(self) -> str:
        return f"{self.commits_a_second:,.0f} a second, {self.server_us:.3g} µs of the server"


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Ratios and figures, as medians over the rounds with their spread."""
    seconds = max(0.5, SECONDS * scale)
    own_cores = os.sched_getaffinity(0)
    core, *others = sorted(own_cores)
    try:
        os.sched_setaffinity(0, others[:1] or [core])
        with tempfile.TemporaryDirectory() as folder:
            files, names = _files(Path(folder))
            settings = [*files.settings(), f"security.acl.file={files.folder / 'acls.toml'}"]
            with (
                commit_path.our_process(core) as (plain, plain_pid),
                commit_path.our_process(core, settings) as (secured, secured_pid),
            ):
                contexts = itertools.cycle([files.client_context(each) for each in names])
                by_tls = http2_load.TlsAddress("localhost", secured[1], contexts)
                return _compare((plain, plain_pid), (by_tls, secured_pid), rounds, seconds)
    finally:
        os.sched_setaffinity(0, own_cores)


def _compare(
    plain: tuple[http2_load.Address, int],
    secured: tuple[http2_load.Address, int],
    count: int,
    seconds: float,
) -> dict[str, object]:
    contestants: dict[str, Callable[[], Load]] = {}
    for work, measure in _WORKS.items():
        for name, server in (("plain", plain), ("secured", secured)):
            contestants[f"{work}, {name}"] = functools.partial(_measured, measure, *server, seconds)
    figures = rounds.interleave(contestants, rounds=count)
    found: dict[str, object] = {}
    for work in _WORKS:
        without, with_it = figures[f"{work}, plain"], figures[f"{work}, secured"]
        for what, of in (
            ("a second", lambda load: load.commits_a_second),
            ("µs of the server a commit", lambda load: load.server_us),
        ):
            some, others = [*map(of, with_it)], [*map(of, without)]
            found[f"{work}, {what}, ratio"] = rounds.ratios(some, others)
            found[f"{work}, {what}, secured"] = rounds.Spread.of(some)
            found[f"{work}, {what}, plain"] = rounds.Spread.of(others)
    return found


def _measured(
    measure: Callable[[http2_load.Address, float], float],
    address: http2_load.Address,
    server_pid: int,
    seconds: float,
) -> Load:
    before_s = _cpu_s(server_pid)
    rate = measure(address, seconds)
    commits = rate * seconds * 1.25  # With those of the warm-up.
    return Load(commits_a_second=rate, server_us=(_cpu_s(server_pid) - before_s) / commits * 1e6)


def _coalesced(streams: int) -> Callable[[http2_load.Address, float], float]:
    def rate(address: http2_load.Address, seconds: float) -> float:
        commits = [_stream_message(number) for number in range(CALLERS)]
        return http2_load.coalesced_rate(
            address,
            commit_path.SERVICE + "StreamCommits",
            commits.__getitem__,
            callers=CALLERS,
            streams=streams,
            seconds=seconds,
        )

    return rate


def _unary(address: http2_load.Address, seconds: float) -> float:
    return http2_load.unary_rate(
        address,
        commit_path.SERVICE + "CommitOffsets",
        commit_path.commits(1),
        connections=UNARY_CONNECTIONS,
        seconds=seconds,
    )


def _stream_message(number: int) -> bytes:
    """A message with one commit of a caller, to a group of its own."""
    offset = offset_service_pb2.OffsetCommit(topic="orders", offset=1_000_000 + number)
    commit = offset_service_pb2.CommitOffsetsRequest(group_id=f"group-{number}", offsets=[offset])
    sequenced = offset_service_pb2.SequencedCommit(sequence=number, commit=commit)
    return offset_service_pb2.StreamCommitsRequest(commits=[sequenced]).SerializeToString()


_WORKS: Final = {
    f"{CALLERS:,} callers, 2 streams": _coalesced(2),
    f"{CALLERS:,} callers, {STREAMS} streams": _coalesced(STREAMS),
    f"unary, {UNARY_CONNECTIONS} connections": _unary,
}


def _files(folder: Path) -> tuple[TlsFiles, list[str]]:
    """The certificates, the names of the clients that have one, and the file of rules."""
    files = TlsFiles(folder)
    names = [f"app-{number}" for number in range(UNARY_CONNECTIONS)]
    for name in ("server", *names):
        files.issue(name)
    tables = (_rules(f"User:CN=app-{number}") for number in range(PRINCIPALS))
    (folder / "acls.toml").write_text("".join(itertools.chain.from_iterable(tables)))
    return files, names


def _rules(principal: str) -> list[str]:
    """Ten rules of a principal: two that allow the commits, and others, of which one denies."""
    resources = [("allow", "group_prefix", "group-"), ("allow", "topic", "orders")]
    resources += [("deny", "group_prefix", "hidden-")]
    resources += [
        ("allow", "group" if number % 2 else "topic_prefix", f"team-{number}.service")
        for number in range(RULES_OF_EACH - len(resources))
    ]
    return [
        f'[[acl]]\nprincipal = "{principal}"\n{permission} = ["Read"]\n{kind} = "{name}"\n'
        for permission, kind, name in resources
    ]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

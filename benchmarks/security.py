"""Compares commits over mTLS with access rules in force, and plain commits.

Two servers run at once, pinned to one core; the generator has another. The secured one has 10,000
rules of 1,000 principals, and each connection comes as another one of them. Workloads and numbers
of connections are the same for both. A ratio is that of secured to plain: of commits a second, and
of the server's CPU time a commit, in which the generator has no part.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Final

from benchmarks import commit_path
from benchmarks.harness import http2_load
from benchmarks.harness.compared_servers import UNARY_CONNECTIONS, compare, two_cores
from benchmarks.harness.tls_files import TlsFiles

PRINCIPALS: Final = 1000
RULES_OF_EACH: Final = 10
SECONDS: Final = 3.0


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Ratios and figures, as medians over the rounds with their spread."""
    with two_cores() as core, tempfile.TemporaryDirectory() as folder:
        files, names = _files(Path(folder))
        settings = [*files.settings(), f"security.acl.file={files.folder / 'acls.toml'}"]
        with (
            commit_path.our_process(core) as (plain, plain_pid),
            commit_path.our_process(core, settings) as (secured, secured_pid),
        ):
            contexts = itertools.cycle([files.client_context(each) for each in names])
            by_tls = http2_load.TlsAddress("localhost", secured[1], contexts)
            servers = {"plain": (plain, plain_pid), "secured": (by_tls, secured_pid)}
            return compare(servers, rounds=rounds, seconds=max(0.5, SECONDS * scale))


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

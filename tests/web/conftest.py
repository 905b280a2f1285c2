"""A server with a history, its pages, and a browser. Without a Chromium, tests of it skip."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from interop.requirements import no_chromium
from web.hostile_names import ODD, XSS
from web.web_process import PATIENT, WebProcess
from web.world import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server_process import ServerProcess

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with groups of usual names."""
    with served(tmp_path_factory.mktemp("world") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def changed_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for tests that change it."""
    from server_process import ServerProcess

    settings = {"group.initial.rebalance.delay.ms": 0}
    folder = tmp_path_factory.mktemp("changed") / "data"
    with ServerProcess(folder, settings=settings).wait_until_serving() as server:
        yield server


@pytest.fixture(scope="session")
def changing(changed_world: ServerProcess) -> Iterator[WebProcess]:
    """Its pages, with changes."""
    with WebProcess(changed_world.address, "--allow-changes", *PATIENT) as pages:
        yield pages


@pytest.fixture(scope="session")
def web(world: ServerProcess) -> Iterator[WebProcess]:
    """Its pages."""
    with WebProcess(world.address, *PATIENT) as pages:
        yield pages


@pytest.fixture(scope="session")
def hostile_web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """Pages of a server whose groups, topics and metadata all have hostile names.

    Tests count its groups and compare their pages: none may change it.
    """
    from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
    from server_process import ServerProcess

    folder = tmp_path_factory.mktemp("hostile") / "data"
    with ServerProcess(folder).wait_until_serving() as server:
        with OffsetClient(server.address) as client:
            for name in ("billing", *XSS, *ODD):
                where, deleted = (TopicPartition(name[:120], each) for each in (0, 1))
                offset = OffsetToCommit(7, metadata=name[:1000], end_offset=9)
                client.commit(name, {where: offset, deleted: 1})
                client.delete_offsets(name, [deleted], reason=name[:200])
            many = {TopicPartition("😀" * 124, each): OffsetToCommit(1) for each in range(120)}
            client.commit("'" * 100, many)
        with WebProcess(server.address, *PATIENT) as pages:
            yield pages


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium of the machine.

    Playwright's loop runs as long as it does, and no test of asyncio can run meanwhile.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        no_chromium("the package playwright is not installed (dependency group `browser`)")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        no_chromium(f"none of {', '.join(NAMES)} is installed")
    with sync_playwright() as playwright:
        # As root, Chromium refuses to run with its sandbox.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()

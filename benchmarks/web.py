"""Measures the pages of `offsetd web` in front of a million groups, and commits beside open pages.

A Chromium opens the list of groups, and types into its search field. The time of a search is from
the key to the list that has only the group, with the 80 ms for which the page waits for more keys.
Then one caller commits at a fixed rate, alone and beside 20 open pages: a process asks for what
these pages ask for, as often. The server has a core; `offsetd web`, the pages and the caller share
the other one.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from web.conftest import NAMES
from web.web_process import WebProcess

from benchmarks.harness.commit_latency import commit_p99_ms
from benchmarks.harness.compared_servers import pin, two_cores
from benchmarks.harness.generate_log import Shape, generate
from benchmarks.harness.our_server import serving
from benchmarks.harness.rounds import Spread, interleave, ratios

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS: Final = 1_000_000
VISITS: Final = 40
SECONDS: Final = 20.0
COMMITS_PER_SECOND: Final = 200
# Each kind of page, how many are open, and after how many seconds it renews itself.
OPEN: Final = (("/", 5, 5.0), ("/groups", 5, 5.0), ("/group?name={}", 5, 2.0), ("/log", 5, 5.0))
_STATUS_SECONDS: Final = 1.0
# The log's commits are from 2023: nothing may expire.
_SETTINGS: Final = ("offsets.retention.minutes=50000000", "disk.reserve.bytes=0")
_FIRST_CONTENT: Final = """() => new Promise((resolve) => {
  const look = () => {
    const [paint] = performance.getEntriesByName('first-contentful-paint');
    if (paint) resolve(paint.startTime);
    else setTimeout(look, 5);
  };
  look();
})"""
_TIMED_SEARCH: Final = """(name) => new Promise((resolve) => {
  const field = document.querySelector('#filters input[name=q]');
  const begun = performance.now();
  const look = () => {
    const rows = document.querySelectorAll('#live tbody tr td:first-child');
    if (rows.length === 1 && rows[0].textContent === name) resolve(performance.now() - begun);
    else requestAnimationFrame(look);
  };
  field.value = name;
  field.dispatchEvent(new Event('input', {bubbles: true}));
  look();
})"""


def run(*, rounds: int, scale: float) -> dict[str, object]:
    """Milliseconds of the pages, and of commits. `scale` is of the groups and of the time."""
    groups, seconds = int(GROUPS * scale), max(2.0, SECONDS * scale)
    shape = Shape(records=4 * groups, batch=1, keys=groups, partitions_per_group=1)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder:
        generate(Path(folder) / "data", shape)
        with (
            two_cores() as core,
            serving(Path(folder) / "data", *_SETTINGS) as server,
            WebProcess(server.address) as pages,
        ):
            pin(server.process.pid, core)
            visits = [_visits(pages, groups) for _ in range(rounds)]
            figures = interleave(
                {
                    "alone": lambda: _p99_ms(server.address, seconds),
                    "beside 20 open pages": lambda: _p99_beside_ms(
                        server.address, pages.url, seconds
                    ),
                },
                rounds=rounds,
            )
    shown: dict[str, object] = {}
    for name in visits[0]:
        for share in (50, 95):
            spread = Spread.of([_percentile(each[name], share) for each in visits])
            shown[f"{name}, {groups:,} groups, p{share}, ms"] = spread
    for name, each in figures.items():
        shown[f"commit of one caller, p99, {name}, ms"] = Spread.of(each)
    shown["p99 beside 20 open pages / alone"] = ratios(
        figures["beside 20 open pages"], figures["alone"]
    )
    return shown


def _percentile(figures: list[float], share: int) -> float:
    return sorted(figures)[min(len(figures) - 1, len(figures) * share // 100)]


def _visits(pages: WebProcess, groups: int) -> dict[str, list[float]]:
    """The times of visits by a browser, in milliseconds."""
    url = pages.url
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # not in every environment

    path = next(filter(None, map(shutil.which, NAMES)))
    content: dict[str, list[float]] = {"first content of the list": [], "first content": []}
    searches: list[float] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        for _ in range(VISITS):
            content["first content"].append(_first_content(page, f"{url}/"))
            content["first content of the list"].append(_first_content(page, f"{url}/groups"))
            name = _some_group(pages, groups)
            searches.append(page.evaluate(_TIMED_SEARCH, name))
        browser.close()
    overview = content.pop("first content")
    return {**content, "first content of the overview": overview, "search as you type": searches}


def _first_content(page: Any, url: str) -> float:
    page.goto("about:blank")  # The page before may renew itself at this moment.
    page.goto(url)
    return float(page.evaluate(_FIRST_CONTENT))


def _some_group(pages: WebProcess, groups: int) -> str:
    """A group that exists: some numbers were never drawn."""
    while True:
        prefix = f"consumer-group-{random.randrange(groups):07d}"[:-2]
        if found := re.search(rf"<bdi>({prefix}\d\d)</bdi>", pages.get(f"/groups?q={prefix}").text):
            return found[1]


def _p99_ms(address: str, seconds: float) -> float:
    return commit_p99_ms(address, commits_per_second=COMMITS_PER_SECOND, seconds=seconds)


def _p99_beside_ms(address: str, url: str, seconds: float) -> float:
    with _open_pages(url):
        return _p99_ms(address, seconds)


@contextmanager
def _open_pages(url: str) -> Iterator[None]:
    """What 20 open pages ask for, by a process of its own."""
    command = ["nice", "-n", "19", sys.executable, "-m", "benchmarks.web", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "open\n"
        yield
        assert process.poll() is None, "it has to ask until the end"
    finally:
        process.terminate()
        process.wait()


async def _ask_for_ever(url: str) -> None:
    """Asks for each page as often as it renews itself, and for the state once a second each."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    group = "consumer-group-0000001"
    paths = [(path.format(group), each) for path, count, each in OPEN for _ in range(count)]
    tasks = [
        asyncio.create_task(_ask(host, int(port), path, period_s))
        for page, period in paths
        for path, period_s in ((page, period), ("/status", _STATUS_SECONDS))
    ]
    await asyncio.sleep(1)
    print("open", flush=True)
    await asyncio.gather(*tasks)


async def _ask(host: str, port: int, path: str, period_s: float) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
    await asyncio.sleep(random.uniform(0, period_s))
    while True:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request)
        status = await reader.readline()
        await reader.read(-1)
        writer.close()
        assert b" 200 " in status or b" 404 " in status, (path, status)
        await asyncio.sleep(period_s)


if __name__ == "__main__":
    asyncio.run(_ask_for_ever(sys.argv[1]))

"""The pages of `offsetd web` as plain HTTP: what they hold, what they refuse."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import signal
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest
from interop.test_bad_input_is_told import BAD_TEXTS, LEAKS, PASTED
from offsetd_clients import OffsetClient
from offsetd_clients.web.rendering import size_text
from web.web_process import WebProcess
from web.world import COMMITS, GROUPS, JOINED, LEASED, PLOTTED

if TYPE_CHECKING:
    from server_process import ServerProcess

PATHS = (
    "/",
    "/groups",
    f"/group?name={PLOTTED}",
    "/log",
    "/log?topic=__offsetd_audit",
    "/log?by=age&partition=7",
    "/cluster",
    "/audit",
    "/settings",
    "/settings?topic=__consumer_offsets",
    "/acls",
)
NEXT = re.compile(r'rel="next" href="([^"]+)"')
PAGE_BYTES_MAX = 200_000


def _next(text: str) -> str | None:
    found = NEXT.search(text)
    return found[1].replace("&amp;", "&") if found else None


@pytest.mark.parametrize("path", PATHS)
def test_every_page_answers_with_little_and_protected(web: WebProcess, path: str) -> None:
    answer = web.get(path)
    assert answer.status == 200, answer.text
    assert len(answer.body) < PAGE_BYTES_MAX
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"


def test_files_are_kept_by_the_browser_and_asked_for_again(web: WebProcess) -> None:
    answer = web.get("/static/web.js")
    assert answer.headers["cache-control"] == "no-cache"
    again = web.get("/static/web.js", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


class _Inline(HTMLParser):
    """Finds what a strict policy forbids: scripts and styles in the page, and other servers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(tag)
        for name, value in attrs:
            is_link = name in ("src", "href", "action", "hx-get")
            if name == "style" or name.startswith("on"):
                self.found.append(f"{tag} {name}")
            if is_link and not (value or "").startswith(("/", "#")):
                self.found.append(f"{tag} {name}={value}")


@pytest.mark.parametrize("path", PATHS)
def test_no_page_has_inline_scripts_or_asks_other_servers(web: WebProcess, path: str) -> None:
    parser = _Inline()
    parser.feed(web.get(path).text)
    assert parser.found == []


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7172",
        "localhost:80@evil.example",
        "127.0.0.1.evil.example",
        "",
        "localhost@evil",
        "[::2]",
    ],
)
def test_another_host_is_refused_before_anything_is_said(web: WebProcess, host: str) -> None:
    for path in ("/", "/groups.csv", "/static/web.js", "/status"):
        answer = web.get(path, headers={"Host": host})
        assert answer.status == 421
        assert PLOTTED not in answer.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1", "[::1]:80"])
def test_names_of_this_machine_are_accepted(web: WebProcess, host: str) -> None:
    assert web.get("/", headers={"Host": host}).status == 200


def test_an_address_without_a_page_is_told_in_the_frame_of_the_pages(web: WebProcess) -> None:
    answer = web.get("/grops<script>")
    assert answer.status == 404
    assert "<h1>There is no such page</h1>" in answer.text
    assert "<nav" in answer.text
    assert "<script>" not in answer.text
    missing = web.get("/static/missing.js")
    assert (missing.status, missing.text) == (404, "There is no such page.\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_but_get_is_answered(web: WebProcess, method: str) -> None:
    for path in ("/", f"/group?name={PLOTTED}", "/static/web.js"):
        assert web.get(path, method=method).status == 405


def test_files_outside_the_folder_of_files_are_not_given(web: WebProcess) -> None:
    for path in (
        "/static/../application.py",
        "/static/%2e%2e/application.py",
        "/static//etc/passwd",
    ):
        assert web.get(path).status == 404


def test_the_pages_of_the_list_hold_every_group_once(web: WebProcess) -> None:
    names: list[str] = []
    path: str | None = "/groups?q=billing-&size=7"
    while path is not None:
        text = web.get(path).text
        names += re.findall(r'href="/group\?name=([^"]+)"', text)
        path = _next(text)
    expected = sum(1 for number in range(GROUPS) if number % 4 == 0) + 1
    assert len(names) == len(set(names)) == expected


def test_a_state_and_a_verdict_filter_and_are_in_the_address(web: WebProcess) -> None:
    assert PLOTTED in web.get(f"/groups?q={PLOTTED}&state=empty").text
    assert "No group agrees with this." in web.get(f"/groups?q={PLOTTED}&state=stable").text
    assert PLOTTED in web.get(f"/groups?q={PLOTTED}&verdict=OK").text
    assert "No group agrees with this." in web.get(f"/groups?q={PLOTTED}&verdict=ERR").text


@pytest.mark.parametrize(
    "path",
    [
        "/groups?state=nothing",
        "/groups?verdict=STOP",
        "/groups?size=0",
        "/groups?sort=end",
        f"/groups?topic={'x' * 250}",
        "/groups?size=x",
        "/groups?size=²",
        "/groups?token=rubbish",
        "/groups?token=W10",
        "/group",
        f"/group?name={PLOTTED}&token=rubbish",
        f"/group?name={PLOTTED}&topic=orders&partition=-1",
        "/log?topic=__other",
        "/log?by=heat",
        "/log?partition=50",
        "/cluster?page=0",
        "/settings?topic=__other",
        "/audit?since=yesterday",
        "/log?page=9999999999999999999999999",
        "/acls?page=0",
    ],
)
def test_an_address_that_is_not_understood_is_told(web: WebProcess, path: str) -> None:
    answer = web.get(quote(path, safe="/?=&"))
    assert answer.status == 400
    assert "address" in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("path", ["/group?name=none", "/group?prefix=x&sha256=00"])
def test_a_group_that_does_not_exist_is_told(web: WebProcess, path: str) -> None:
    answer = web.get(path)
    assert answer.status == 404
    assert "There is no such group" in answer.text


def test_a_group_shows_its_partitions_lease_and_changes(web: WebProcess) -> None:
    text = web.get(f"/group?name={PLOTTED}").text
    assert "30 d" in text
    assert "audit of the quarter" in text
    assert "worker-2" in text
    assert "sender-2" in web.get(f"/group?name={LEASED}").text


def test_a_group_shows_its_members_and_what_they_read(web: WebProcess) -> None:
    text = web.get(f"/group?name={JOINED}").text
    assert "reporter-7" in text
    for partition in range(3):
        assert f"<bdi>clicks</bdi>:{partition}" in text
    assert "stable" in web.get(f"/groups?q={JOINED}").text


def test_the_history_of_a_partition_is_all_of_it(web: WebProcess) -> None:
    query = urlencode({"name": PLOTTED, "topic": "orders", "partition": 0})
    found = json.loads(web.get(f"/group/history?{query}").text)
    assert found["offsets"][0] == 10_000
    assert len(found["offsets"]) == found["events"] == COMMITS
    assert found["times_ms"] == sorted(found["times_ms"])
    query = urlencode({"name": PLOTTED, "topic": "orders", "partition": 11})
    assert json.loads(web.get(f"/group/history?{query}").text)["offsets"][-1] is None


def test_the_csv_has_every_group_of_the_choice(web: WebProcess) -> None:
    answer = web.get("/groups.csv")
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows[0][:4] == ["group", "type", "state", "protocol_type"]
    assert rows[0][4:] == ["members", "offsets", "verdict", "lease_holder", "lag"]
    assert len([row for row in rows if row[0] != "live"]) == 1 + GROUPS + 3
    assert "attachment" in answer.headers["content-disposition"]
    assert len(list(csv.reader(io.StringIO(web.get("/groups.csv?q=mail-").text)))) == 1 + 30 + 1


def test_no_cell_of_the_csv_is_a_formula(hostile_web: WebProcess) -> None:
    rows = list(csv.reader(io.StringIO(hostile_web.get("/groups.csv").text, newline="")))
    assert "'=cmd|' /C calc'!A0" in [row[0] for row in rows]
    for text in ("\n=1+1", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM"):
        assert f"'{text}" in [row[0] for row in rows]
    assert all(
        row[0][:1] not in ("=", "+", "-", "@", *"\n\uff1d\uff0b\uff0d\uff20") for row in rows
    )


def test_the_audit_is_searched(web: WebProcess) -> None:
    assert "the topic is smaller now" in web.get("/audit?method=DeleteOffsets").text
    text = web.get(f"/audit?method=UpdateGroup&group={PLOTTED}").text
    assert "audit of the quarter" in text
    assert "the topic is smaller now" not in text
    assert "No change agrees with this." in web.get("/audit?until=2001-01-01").text


def test_settings_say_what_they_do_and_where_they_come_from(web: WebProcess) -> None:
    text = web.get("/settings?q=history.ms&set=yes").text
    assert "history.ms" in text
    assert "static-server" in text
    assert "listen.address" not in text
    # Milliseconds and bytes are also told in units that people read.
    assert "ms (10 min)" in web.get("/settings?q=lag.window.ms").text
    assert "bytes (100.0 MiB)" in web.get("/settings?q=segment.bytes&topic=__consumer_offsets").text


@pytest.mark.single_server
def test_the_overview_shows_the_room_on_the_disk(
    world: ServerProcess, web: WebProcess, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with OffsetClient(world.address) as client:
        disk = client.get_server_info().disk
    assert disk is not None
    # The data folder is in the same file system.
    assert disk.total_bytes == shutil.disk_usage(tmp_path_factory.getbasetemp()).total
    assert 0 < disk.free_bytes < disk.total_bytes
    assert f"free of {size_text(disk.total_bytes)} on the disk</span>" in web.get("/").text


def test_a_server_without_rules_says_so(web: WebProcess) -> None:
    assert "not in force" in web.get("/acls").text


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "example.org:0", "192.0.2.1:0"])
def test_it_does_not_listen_elsewhere_unless_told(listen: str) -> None:
    with WebProcess("127.0.0.1:1", "--listen", listen) as refused:
        code, rest = refused.end(0)
        assert code == 2
        assert "--let-anyone-in-without-login" in refused.first_line + rest


@pytest.mark.parametrize("option", ["--listen", "--host-name"])
@pytest.mark.parametrize("value", [*BAD_TEXTS.values(), "::1:80"])
def test_a_wrong_option_is_told_in_words(option: str, value: str) -> None:
    with WebProcess("127.0.0.1:1", f"{option}={value}") as refused:
        code, rest = refused.end(0)
        assert code == 2
        assert not LEAKS.search(PASTED.sub("", refused.first_line + rest))


def test_it_listens_elsewhere_if_told(world: ServerProcess) -> None:
    told = ("--let-anyone-in-without-login", "--host-name", "pages.example")
    with WebProcess(world.address, "--listen", "0.0.0.0:0", *told) as pages:
        assert pages.get("/", headers={"Host": "pages.example"}).status == 200
        assert pages.get("/", headers={"Host": "other.example"}).status == 421


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(world: ServerProcess, number: int) -> None:
    with WebProcess(world.address) as pages:
        assert pages.get("/status").status == 200
        assert pages.end(number) == (0, "")


def test_a_port_that_is_taken_is_told(world: ServerProcess, web: WebProcess) -> None:
    with WebProcess(world.address, "--listen", f"127.0.0.1:{web.port}") as refused:
        assert "Address already in use" in refused.first_line
        assert refused.end(0)[0] == 1


def test_without_a_server_each_page_says_so() -> None:
    with WebProcess("127.0.0.1:1") as pages:
        answer = pages.get("/")
        assert answer.status == 503
        assert "The server does not answer" in answer.text
        assert 'data-state="lost"' in pages.get("/status").text
        # What a page asks for by itself leaves it as it is.
        assert pages.get("/", headers={"HX-Request": "true"}).status == 204

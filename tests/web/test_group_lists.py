"""The list of groups: narrowed by topic and by lease, in another order, and the same as CSV."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from server_process import ServerProcess
from web.web_process import WebProcess
from web.world import JOINED, LEASED, PLOTTED

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = re.compile(r'<td><a href="/group\?name=([^"]+)"')
NEXT = re.compile(r'rel="next" href="([^"]+)"')
SORTED = 1003


def names_of(text: str) -> list[str]:
    return NAME.findall(text)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """Pages of a server with more groups than are sorted."""
    folder = tmp_path_factory.mktemp("crowded") / "data"
    with ServerProcess(folder).wait_until_serving() as server:
        with OffsetClient(server.address) as client:
            for number in range(SORTED):
                offsets = {
                    TopicPartition("orders", each): OffsetToCommit(7)
                    for each in range(1 + number % 3)
                }
                client.commit_soon(f"g{number:04}", offsets)
            client.flush()
        with WebProcess(server.address) as pages:
            yield pages


def test_a_topic_and_a_lease_narrow_the_list(web: WebProcess) -> None:
    assert names_of(web.get("/groups?topic=mails").text) == [LEASED]
    assert names_of(web.get("/groups?owner=sender-2").text) == [LEASED]
    assert names_of(web.get("/groups?owner=sender-2&topic=mails&q=mail").text) == [LEASED]
    for path in ("/groups?owner=sender", "/groups?owner=sender-2&topic=orders", "/groups?topic=m"):
        assert "No group that you may see" in web.get(path).text


@pytest.mark.parametrize(
    ("sort", "first"), [("-members", JOINED), ("-owner", LEASED), ("-offsets", PLOTTED)]
)
def test_the_list_is_sorted_by_what_a_heading_names(web: WebProcess, sort: str, first: str) -> None:
    text = web.get(f"/groups?sort={sort}").text
    assert names_of(text)[0] == first
    assert f'aria-sort="descending"><a href="/groups?sort={sort[1:]}"' in text


@pytest.mark.parametrize("sort", ["group", "-group"])
def test_the_pages_of_a_sorted_list_hold_every_group_once(web: WebProcess, sort: str) -> None:
    names: list[str] = []
    path: str | None = f"/groups?q=billing-&size=7&sort={sort}"
    while path is not None:
        text = web.get(path).text
        names += names_of(text)
        found = NEXT.search(text)
        path = found[1].replace("&amp;", "&") if found else None
    assert len(names) > 30
    assert names == sorted(set(names), reverse=sort.startswith("-"))


def test_more_groups_than_are_sorted_are_told(crowded: WebProcess) -> None:
    told = "Only the first 1,000 groups are sorted"
    assert told in crowded.get("/groups?sort=group").text
    assert told not in crowded.get("/groups").text
    assert told not in crowded.get("/groups?sort=-offsets&q=g00").text
    assert names_of(crowded.get("/groups?sort=-offsets&q=g000").text)[0] == "g0002"


def test_the_csv_honours_the_filters(web: WebProcess) -> None:
    def rows(query: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(web.get(f"/groups.csv?{query}").text)))

    (leased,) = rows("topic=mails&owner=sender-2")
    assert leased["group"] == LEASED
    assert (leased["lease_holder"], leased["offsets"], leased["verdict"]) == ("sender-2", "1", "OK")
    assert rows("owner=sender") == []
    assert {each["members"] for each in rows(f"q={JOINED}")} == {"1"}


def test_topics_are_searched_as_they_are_typed(web: WebProcess, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(web.url + "/groups")
    page.fill("#filters input[name=topic]", "mails")
    page.wait_for_url(re.compile(r"topic=mails"))
    page.wait_for_selector("tbody tr:only-child a")
    assert page.inner_text("tbody a") == LEASED
    page.click("th a:text-is('Offsets')")
    page.wait_for_url(re.compile(r"sort=-offsets"))
    assert page.input_value("#filters input[name=topic]") == "mails"
    context.close()

"""The list of groups: narrowed by topic and by lease, in another order, and the same as CSV."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_clients.web.pages.overview import WORST_SHOWN
from promised import promised_by
from server_process import ServerProcess, poll
from web.web_process import WebProcess
from web.world import JOINED, LEASED, PLOTTED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = re.compile(r'<td><a href="/group\?name=([^"]+)"')
NEXT = re.compile(r'rel="next" href="([^"]+)"')
SORTED = 1003
SECONDS_MAX = 60

promised = promised_by("docs/guides/web.md")


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
        assert "No group agrees with this." in web.get(path).text


def test_the_largest_lags_are_on_the_overview_and_first_in_the_list(
    world: ServerProcess, web: WebProcess
) -> None:
    with OffsetClient(world.address) as client:
        listed = client.list_groups(include_lag_verdicts=True)
        lags = {each.group_id: each.lag for each in listed if each.lag}
    largest = sorted(lags.values(), reverse=True)
    assert largest[0] > largest[-1]
    shown = [lags[name] for name in names_of(web.get("/").text)]
    assert shown == largest[: len(shown)]
    assert len(shown) == WORST_SHOWN
    names = names_of(web.get("/groups?sort=-lag&size=40").text)
    assert [lags[name] for name in names] == largest[:40]
    csv_rows = csv.DictReader(io.StringIO(web.get("/groups.csv").text))
    assert {
        row["group"]: int(row["lag"]) for row in csv_rows if row["lag"] not in ("", "0")
    } == lags


@promised("If groups have the verdict `ERR`, it does not say that all is well.")
def test_the_overview_with_groups_that_fall_behind_does_not_say_that_all_is_well(
    tmp_path: Path,
) -> None:
    settings = {"lag.window.ms": 10_000}
    with ServerProcess(tmp_path / "data", settings=settings).wait_until_serving() as server:
        with OffsetClient(server.address) as client:
            client.commit("slow", {TopicPartition("orders", 0): OffsetToCommit(7, end_offset=9)})
        with WebProcess(server.address) as pages:
            assert "All is well" in pages.get("/").text
            poll(lambda: "1 group has</a> the verdict ERR" in pages.get("/").text, SECONDS_MAX)
            assert "All is well" not in pages.get("/").text


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

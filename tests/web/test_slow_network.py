"""The pages through a network with 250 ms between a question and its answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from delaying_proxy import delayed
from offsetd_clients import OffsetClient, TopicPartition
from web.web_process import WebProcess
from web.world import LEASED, PLOTTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server_process import ServerProcess

SECONDS_EACH_WAY = 0.125
WAIT_MS = 60_000


@pytest.fixture
def far_url(world: ServerProcess) -> Iterator[str]:
    """Pages that are as far from the server as the browser is from them."""
    host, _, port = world.address.rpartition(":")
    with (
        delayed(host, int(port), seconds_each_way=SECONDS_EACH_WAY) as server_port,
        WebProcess(f"127.0.0.1:{server_port}") as web,
        delayed("127.0.0.1", urlsplit(web.url).port or 0, seconds_each_way=SECONDS_EACH_WAY) as far,
    ):
        yield f"http://127.0.0.1:{far}"


def test_the_pages_work_far_from_the_server(
    world: ServerProcess, browser: Any, far_url: str
) -> None:
    context = browser.new_context()
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(far_url + "/")
    page.wait_for_selector("[data-state=serving]")
    assert "log partitions serving" in page.inner_text("main")
    page.goto(far_url + "/groups")
    page.focus("#filters input[name=q]")
    page.keyboard.type("mail-se")  # Each key asks for another list; the last one counts.
    page.wait_for_selector("tbody tr:only-child a")
    page.wait_for_url(re.compile("q=mail-se(&|$)"))
    assert page.inner_text("tbody a") == LEASED
    page.goto(f"{far_url}/group?name={PLOTTED}")
    page.wait_for_selector("#plot[data-plotted='60'] canvas")
    with OffsetClient(world.address) as client:
        client.commit("far", {TopicPartition("orders", 0): 1})
        page.goto(f"{far_url}/group?name=far")
        client.commit("far", {TopicPartition("orders", 0): 7_654_321})
        page.get_by_text("7,654,321").first.wait_for()
        client.delete_group("far")
    assert page.locator("[data-state=serving]").count() == 1
    context.close()

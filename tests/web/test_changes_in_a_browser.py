"""A reset and a restore in a real Chromium, with its cookies, its headers and the slider."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from web.test_in_a_browser import _FAINT, WAIT_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server_process import ServerProcess
    from web.web_process import WebProcess

FIELDS = ("to", "value")
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(WAIT_MS)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda told: problems.append(told.text) if told.type == "error" else None)
    yield opened
    context.close()
    # A refused form is told in the console too.
    assert [each for each in problems if "403 (Forbidden)" not in each] == []


def test_a_reset_from_the_page_of_the_group(
    changed_world: ServerProcess, changing: WebProcess, page: Any
) -> None:
    with OffsetClient(changed_world.address) as client:
        client.commit("clicked", {ORDERS: OffsetToCommit(40, end_offset=100)})
        page.goto(f"{changing.url}/group?name=clicked")
        page.click("text=Reset offsets")
        page.select_option("select[name=to]", "latest")
        page.click("text=Show what would change")
        page.wait_for_selector("#confirm")
        assert "1 ahead, by 60 in all" in page.inner_text("#summary")
        assert client.fetch("clicked")[ORDERS].offset == 40
        page.set_viewport_size({"width": 800, "height": 800})
        upper, lower = (page.locator(f"#choice [name={name}]").bounding_box() for name in FIELDS)
        assert lower["y"] - upper["y"] - upper["height"] >= 8, "rows do not touch"
        assert page.evaluate(_FAINT) == []
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        page.fill("input[name=reason]", "clicked together")
        page.click("#confirm button")
        page.wait_for_url(re.compile("/change/done"))
        assert client.fetch("clicked")[ORDERS].offset == 100
        page.reload()  # It shows the result, and sends nothing again.
        page.click("#audit")
        page.wait_for_url(re.compile("/audit"))
        page.get_by_text("clicked together").first.wait_for()


def test_a_restore_with_the_slider(
    changed_world: ServerProcess, changing: WebProcess, page: Any
) -> None:
    with OffsetClient(changed_world.address) as client:
        for offset in (11, 22, 33, 44):
            client.commit("slid", {ORDERS: offset})
        page.goto(f"{changing.url}/group?name=slid")
        page.click("text=Restore, as it was at")
        page.wait_for_selector("#slider")
        assert page.input_value("#slider") == "2"  # The state before the last change.
        page.focus("#slider")
        page.keyboard.press("ArrowLeft")
        page.get_by_text("1 back, by 22 in all").wait_for()  # The difference, at once.
        page.keyboard.press("ArrowLeft")
        page.get_by_text("1 back, by 33 in all").wait_for()
        assert "revision=" in page.url  # The choice is in the address.
        assert client.fetch("slid")[ORDERS].offset == 44
        page.reload()
        assert page.input_value("#slider") == "0"
        page.fill("input[name=reason]", "slid back")
        page.click("#confirm button")
        page.wait_for_url(re.compile("/change/done"))
        assert client.fetch("slid")[ORDERS].offset == 11


def test_a_page_of_another_site_cannot_send_the_form(
    changed_world: ServerProcess, changing: WebProcess, page: Any
) -> None:
    with OffsetClient(changed_world.address) as client:
        client.commit("attacked", {ORDERS: 40})
        page.goto(f"{changing.url}/change/reset?name=attacked&to=offset&value=1&look=yes")
        fields = page.evaluate("Object.fromEntries(new FormData(document.forms['confirm']))")
        inputs = "".join(f'<input name="{name}" value="{fields[name]}">' for name in fields)
        form = f'<form method=post action="{changing.url}/change/reset">{inputs}<button>x</button>'
        page.route(
            "http://evil.example/", lambda route: route.fulfill(body=form, content_type="text/html")
        )
        page.goto("http://evil.example/")
        page.fill("input[name=reason]", "mine now")
        with page.expect_response(lambda answer: "/change/reset" in answer.url) as sent:
            page.click("button")
        assert sent.value.status == 403
        page.goto("about:blank")
        assert client.fetch("attacked")[ORDERS].offset == 40

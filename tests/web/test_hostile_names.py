"""Names that try to become scripts, links or layout: none does, in a real Chromium."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients.web.names import bounded, group_link
from server_process import poll
from web.hostile_names import ODD, TEMPLATES, TWINS, XSS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from web.web_process import WebProcess

LISTS = ("/", "/groups?size=100", "/audit", "/log?partition=0", "/cluster", "/settings")
PAGE_BYTES_MAX = 200_000


class Watched:
    """A page of the browser that notes whatever should not happen."""

    def __init__(self, page: Any, origin: str) -> None:
        self.page = page
        self.origin = origin
        self.seen: list[str] = []
        page.add_init_script("window.hits = 0; window.hit = () => { window.hits += 1; };")
        page.on("console", lambda told: self.seen.append(f"{told.type}: {told.text}"))
        page.on("pageerror", lambda error: self.seen.append(str(error)))
        page.on("dialog", lambda dialog: (self.seen.append("dialog"), dialog.dismiss()))
        page.on("request", self._note_request)

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith(self.origin):
            self.seen.append(request.url)

    def visit(self, path: str) -> Any:
        """Loads a page, and moves the mouse and the focus over it."""
        response = self.page.goto(self.origin + path)
        assert response.status == 200, (path, response.status)
        self.page.mouse.move(120, 140)
        self.page.keyboard.press("Tab")
        assert self.page.evaluate("window.hits") == 0, path
        assert self.seen == [], path
        return response


@pytest.fixture(scope="module")
def watched(browser: Any, hostile_web: WebProcess) -> Iterator[Watched]:
    context = browser.new_context()
    yield Watched(context.new_page(), hostile_web.url)
    context.close()


def test_the_watch_notices_a_script_that_runs(browser: Any, hostile_web: WebProcess) -> None:
    context = browser.new_context(bypass_csp=True)
    watched = Watched(context.new_page(), hostile_web.url)
    watched.visit("/acls")
    watched.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=hit()>')"
    )
    poll(lambda: watched.page.evaluate("window.hits") == 1, 30)
    context.close()


def test_the_policy_stops_what_would_be_written_into_a_page(
    browser: Any, hostile_web: WebProcess
) -> None:
    context = browser.new_context()
    watched = Watched(context.new_page(), hostile_web.url)
    watched.visit("/acls")
    # `evaluate` itself is not under the policy; what it writes into the page is.
    watched.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=hit()>')"
    )
    poll(lambda: any("Content Security Policy" in each for each in watched.seen), 30)
    assert watched.page.evaluate("window.hits") == 0
    context.close()


@pytest.mark.parametrize("path", LISTS)
def test_lists_of_hostile_names_stay_lists(watched: Watched, path: str) -> None:
    assert len(watched.visit(path).body()) < PAGE_BYTES_MAX
    assert path != "/audit" or watched.page.locator("tbody tr").count() == 50
    # Nothing of the names became an element.
    found = watched.page.locator(
        "main :is(script, img, svg:not(.spark), iframe, object, base, details, style)"
    )
    assert found.count() == 0


def test_a_hostile_group_has_a_page_with_its_name(watched: Watched) -> None:
    # Every second way to write a script: the lists, and the test below, have all names.
    for name in (*XSS[:: 2 * len(XSS) // len(TEMPLATES)], *ODD):
        response = watched.visit(group_link(name))
        assert len(response.body()) < PAGE_BYTES_MAX
        shown = watched.page.evaluate("document.querySelector('h1.name bdi').textContent")
        assert shown == bounded(name, 300), name
        found = watched.page.locator("main :is(script, img, svg, iframe, object, base, style)")
        assert found.count() == 0, name


def test_the_page_of_every_hostile_group_has_only_our_elements(hostile_web: WebProcess) -> None:
    assert len(XSS) >= 200
    usual = _Elements(hostile_web.get(group_link("billing")).text)
    for name in (*XSS, *ODD):
        answer = hostile_web.get(group_link(name))
        assert answer.status == 200
        assert len(answer.body) < PAGE_BYTES_MAX
        found = _Elements(answer.text)
        assert found.elements == usual.elements, name
        title = re.search(r'<h1 class="name"><bdi[^>]*>(.*?)</bdi></h1>', answer.text, re.DOTALL)
        assert title is not None
        assert unescape(re.sub("</?i>", "", title[1])) == bounded(name, 300)


def test_an_escape_does_not_look_like_the_backslash_of_a_name(hostile_web: WebProcess) -> None:
    escaped, plain = (hostile_web.get(group_link(each)).text for each in TWINS)
    assert "<i>\\u202e</i>x</bdi></h1>" in escaped
    assert 'title="Marked: ' in escaped
    assert "<bdi>\\u202ex</bdi></h1>" in plain


class _Elements(HTMLParser):
    """The elements of a page without marks of escapes, each with the names of its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "bdi":
            self.elements.append((tag,))  # With escapes, it has a title.
        elif tag != "i" or attrs:
            self.elements.append((tag, *sorted(name for name, _ in attrs)))


def test_each_link_of_the_list_leads_to_the_group_that_it_names(watched: Watched) -> None:
    names: set[str] = set()
    path: str | None = "/groups?size=100"
    while path is not None:
        watched.visit(path)
        links = watched.page.evaluate(
            "[...document.querySelectorAll('tbody a')].map((a) => a.getAttribute('href'))"
        )
        names.update(links)
        following = watched.page.locator("a[rel=next]")
        path = following.get_attribute("href") if following.count() else None
    assert names == {group_link(name) for name in ("billing", "'" * 100, *XSS, *ODD)}


def test_a_topic_with_a_long_name_can_be_chosen(watched: Watched) -> None:
    path = group_link("'" * 100)
    assert len(watched.visit(path).body()) < PAGE_BYTES_MAX
    assert watched.page.locator("tbody tr:has(td:nth-child(10))").count() == 50
    watched.page.click("a[rel=next]")
    watched.page.click("tbody a:text-is('77')")
    watched.page.wait_for_url(re.compile("partition=77"))
    watched.page.wait_for_selector("#plot[data-plotted='1'] canvas")
    assert watched.page.inner_text("h2:has(+ #plot)").endswith(":77")
    assert watched.seen == []


def test_no_name_makes_a_list_large_or_turns_its_direction(hostile_web: WebProcess) -> None:
    path: str | None = "/groups?size=100"
    while path is not None:
        answer = hostile_web.get(path)
        assert answer.status == 200
        assert len(answer.body) < PAGE_BYTES_MAX
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\x00-\x08\x1b]", answer.text)
        found = re.search(r'rel="next" href="([^"]+)"', answer.text)
        path = found[1].replace("&amp;", "&") if found else None

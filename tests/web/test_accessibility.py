"""No page has what axe-core calls a violation: of WCAG 2.2 A and AA, or of its best practices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from web.world import JOINED, LEASED, PLOTTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from web.web_process import WebProcess

AXE: Final = (Path(__file__).parent / "vendor" / "axe.min.js").read_text("utf-8")
PATHS: Final = (
    "/",
    "/groups",
    "/groups?q=nothing-begins-so",
    f"/group?name={PLOTTED}",
    f"/group?name={JOINED}",
    f"/group?name={LEASED}",
    "/group?name=missing",
    "/log",
    "/log?topic=__offsetd_audit&by=age",
    "/log?by=dirty&partition=7",
    "/cluster",
    "/audit",
    "/settings",
    "/settings?topic=__consumer_offsets&set=yes",
    "/acls",
)
_VIOLATIONS: Final = """async () => {
  const found = await axe.run(document);
  return found.violations.flatMap((each) =>
    each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 160)}: ${node.failureSummary}`));
}"""


def violations(page: Any) -> list[str]:
    """What axe-core finds on an open page, one text for each element."""
    page.evaluate(AXE)
    found: list[str] = page.evaluate(_VIOLATIONS)
    return found


@pytest.fixture(scope="module", params=[("light", 1000), ("dark", 400)], ids=["light", "dark"])
def page(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    """A page: light in a wide window, dark in a narrow one."""
    scheme, width = request.param
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("path", PATHS)
def test_no_page_has_a_violation(web: WebProcess, page: Any, path: str) -> None:
    page.goto(web.url + path)
    page.wait_for_selector("[data-state=serving]")
    assert violations(page) == []


def test_the_help_has_no_violation(web: WebProcess, page: Any) -> None:
    page.goto(web.url + "/acls")
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()
    assert violations(page) == []


def test_axe_notices_a_field_without_a_label(web: WebProcess, page: Any) -> None:
    page.goto(web.url + "/acls")
    page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    assert any(each.startswith("label:") for each in violations(page))

"""The pictures of the guide: made with OFFSETD_WRITE_GOLDEN=1, else only looked after."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from web.world import PLOTTED

if TYPE_CHECKING:
    from web.web_process import WebProcess

FOLDER: Final = Path(__file__).parents[2] / "docs" / "guides" / "web"
GUIDE: Final = FOLDER.with_suffix(".md")
BYTES_MAX: Final = 150_000
# Name, address, width and height of the window, colours. That of the history is of the plot alone.
PICTURES: Final = (
    ("overview", "/", 1200, 620, "light"),
    ("group", f"/group?name={PLOTTED}", 1200, 900, "light"),
    ("history", f"/group?name={PLOTTED}", 1200, 900, "light"),
    ("groups-dark", "/groups?q=billing-", 1200, 560, "dark"),
    ("log", "/log?by=size&partition=8", 1200, 760, "light"),
    ("group-narrow", f"/group?name={PLOTTED}", 400, 760, "dark"),
)


@pytest.mark.skipif("OFFSETD_WRITE_GOLDEN" not in os.environ, reason="writes pictures")
@pytest.mark.parametrize(("name", "path", "width", "height", "scheme"), PICTURES)
def test_make_the_pictures(
    web: WebProcess, browser: Any, name: str, path: str, width: int, height: int, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, timezone_id="UTC"
    )
    page = context.new_page()
    page.goto(web.url + path)
    page.wait_for_selector("[data-state=serving]")
    if "name=" in path:
        page.wait_for_selector("#plot[data-plotted]")
    FOLDER.mkdir(exist_ok=True)
    pictured = page.locator("#plot") if name == "history" else page
    pictured.screenshot(path=FOLDER / f"{name}.png")
    context.close()


def test_the_guide_shows_each_picture_and_all_are_small() -> None:
    shown = re.findall(r"\(web/([a-z-]+)\.png\)", GUIDE.read_text("utf-8"))
    assert sorted(shown) == sorted(name for name, *_ in PICTURES)
    for name in shown:
        assert (FOLDER / f"{name}.png").stat().st_size < BYTES_MAX

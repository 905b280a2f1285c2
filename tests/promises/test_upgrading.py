"""docs/upgrading.md, and the places that name the version of this release."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Final

import pytest
from offsetd_coordinator.commands.format_versions import format_versions
from promised import ROOT

PAGE: Final = (ROOT / "docs/upgrading.md").read_text()
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
# Rows of the page's last table, by what `offsetd version --all` calls them.
ROWS: Final = {
    "folder": "`offsetd.properties`",
    "journal": "[journal]",
    "quarantine": "quarantine file",
    "segment list": "[list of segments]",
    "last-up": "`offsetd.last-up`",
    "repairs": "`offsetd.repairs`",
    "checkpoints": "[Kafka's checkpoints]",
    "settings": "record of [`__offsetd_config`]",
    "audit": "record of [`__offsetd_audit`]",
    "backup": "[backup]",
}


def test_the_table_has_every_format_with_the_version_that_is_written() -> None:
    table = PAGE.split("## What has a version")[1]
    written = format_versions()
    assert written.keys() == ROWS.keys()
    for name, begin in ROWS.items():
        [row] = [line for line in table.splitlines() if line.startswith(f"| {begin}")]
        assert row.split("|")[3].split(";")[0].strip() == str(written[name]), row


def test_the_page_tells_of_the_step_to_this_release_and_back() -> None:
    assert re.search(rf"^## From \S+ to {re.escape(VERSION)}$", PAGE, re.MULTILINE)
    assert f"| {VERSION} | " in PAGE.split("## Going back")[1]


def test_pages_install_the_wheel_of_this_release() -> None:
    named = {
        (wheel, page.name)
        for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
        for wheel in re.findall(r"offsetd-(\d[\w.]*)-py3-none-any\.whl", page.read_text())
    }
    assert {wheel for wheel, _ in named} == {VERSION}, named


def test_the_chart_runs_this_release() -> None:
    assert f"\nappVersion: {VERSION}\n" in (ROOT / "deploy/helm/offsetd/Chart.yaml").read_text()


def test_the_changelog_has_a_dated_section_of_this_release() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    newest = next(each for each in headings if each != "Unreleased")
    assert re.fullmatch(rf"{re.escape(VERSION)} - \d{{4}}-\d\d-\d\d", newest)


@pytest.mark.parametrize("name", ["stopped", "killed"])
def test_this_release_has_kept_its_folders(name: str) -> None:
    kept = ROOT / "tests/golden" / f"offsetd-{VERSION}"
    assert (kept / f"{name}.tar.xz").is_file()
    assert json.loads((kept / f"{name}.json").read_text())["groups"]
    assert (kept / "README.md").is_file()

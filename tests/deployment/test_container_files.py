"""Containerfile and compose files, read by the tools that know their forms."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest
from deployment.tools import DEPLOY, ROOT, did

CONTAINERFILE = DEPLOY / "Containerfile"


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("compose/*.yaml")), ids=lambda file: file.name)
def test_compose_files_keep_the_specification(file: str) -> None:
    did("check-jsonschema", "--builtin-schema", "vendor.compose-spec", file)


def test_the_containerfile_is_well_formed() -> None:
    did("hadolint", CONTAINERFILE)


def test_what_the_image_is_made_from_is_in_its_context() -> None:
    kept = [
        line[1:]
        for line in (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    assert all((ROOT / each).exists() for each in kept)
    text = CONTAINERFILE.read_text()
    copied = re.findall(r"^COPY ([^-]\S*) ", text, re.MULTILINE)
    wheel = re.findall(r'^    "(\w+)/offsetd', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    for source in [*copied, *wheel, ".ci/constraints.txt", "README.md", "LICENSE"]:
        assert source == "." or any(fnmatch(source, f"{each}*") for each in kept), source
    assert all((ROOT / source).exists() for source in copied)

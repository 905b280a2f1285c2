"""Containerfile and compose files, read by the tools that know their forms."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest
from deployment.tools import DEPLOY, ROOT, did
from offsetd_clients.cli.connection import TLS_PARTS, TLS_PREFIX
from offsetd_coordinator.configuration.settings_sources import load_settings

CONTAINERFILE = DEPLOY / "Containerfile"
GUIDE = ROOT / "docs" / "guides" / "deploying.md"


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


def test_the_guide_runs_containers_with_settings_that_fit() -> None:
    runs = re.findall(r"^docker run .*(?:(?<=\\)\n.*)*", GUIDE.read_text(), re.MULTILINE)
    assert len(runs) == 2
    toml = (DEPLOY / "container" / "offsetd.toml").read_text()
    for run in runs:
        environment = dict(re.findall(r"--env (\w+)=(\S*)", run))
        settings = load_settings(toml=toml, environment=environment)
        settings.check_security()
        assert settings.has_tls != settings.security_allow_insecure
        of_clients = [each for each in environment if each.startswith(TLS_PREFIX)]
        assert {each.removeprefix(TLS_PREFIX) for each in of_clients} <= set(TLS_PARTS)
        assert bool(of_clients) == settings.has_tls
        assert "--read-only --tmpfs /tmp" in run

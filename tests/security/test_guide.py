"""The guide's five minutes and its other steps, run as they stand there but for the port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_coordinator.configuration.settings_sources import load_settings
from offsetd_coordinator.security.acl import EVERYONE, Operation, ResourceType
from offsetd_coordinator.security.acl_file import parse_acl_file
from offsetd_coordinator.security.authorizer import Authorizer
from ports import free_ports
from promised import promised_by
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "security.md"
TEXT = GUIDE.read_text("utf-8")
STEP_SECONDS_MAX = 120
promised = promised_by("docs/guides/security.md")


def blocks(language: str) -> list[str]:
    """The code blocks of the guide, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a block in a folder, with the installed command."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    clean = {name: value for name, value in os.environ.items() if "OFFSETD_" not in name}
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**clean, "PATH": path},
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS_MAX,
        check=False,
    )


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the first block makes."""
    folder = tmp_path_factory.mktemp("guide")
    done = shell(f"set -e\n{blocks('sh')[0]}", folder)
    assert done.returncode == 0, done.stderr
    return folder / "secure"


@pytest.fixture(scope="module")
def served(secure: Path) -> Iterator[int]:
    """The server of the second block. Its port."""
    [port] = free_ports(1)
    command = blocks("sh")[1].replace("\\\n", " ").replace("0.0.0.0:7171", f"0.0.0.0:{port}")
    settings = dict(re.findall(r"--set (\S+?)=(\S+)", command))
    listen, folder = (
        re.findall(r"--listen (\S+)", command),
        re.findall(r"--data-dir (\S+)", command),
    )
    assert command.split()[:2] == ["offsetd", "serve"]
    values: dict[str, Any] = {**settings, "listen.address": listen[0]}
    files = {name: secure / value for name, value in values.items() if name.endswith(".file")}
    with ServerProcess(secure / folder[0], settings={**values, **files}) as server:
        server.wait_until_serving()
        yield port


def test_five_minutes_end_in_a_working_set_up(secure: Path, served: int) -> None:
    script = blocks("sh")[2].replace("localhost:7171", f"localhost:{served}")
    *before, allowed, refused = script.strip().splitlines()
    first = shell("\n".join([*before, allowed]), secure)
    assert first.returncode == 0, first.stderr
    second = shell("\n".join([*before, refused]), secure)
    assert second.returncode == 1
    assert "GROUP_AUTHORIZATION_FAILED: User:CN=billing-app has no right" in second.stderr
    stranger = shell(refused.replace("7171", str(served)), secure)
    assert stranger.returncode == 1
    assert "AUTHORIZATION" not in stranger.stderr


@promised("`super.users` (`User:a;User:b`) may do everything.")
def test_the_super_user_of_the_guide_may_do_everything(secure: Path, served: int) -> None:
    script = (
        "export OFFSETD_TLS_CA=ca.pem OFFSETD_TLS_CERTIFICATE=admin.pem OFFSETD_TLS_KEY=admin.key\n"
        f"offsetd --address localhost:{served} commit payroll orders:0=42\n"
        f"offsetd --address localhost:{served} groups delete payroll --execute --reason gone\n"
        f"offsetd --address localhost:{served} admin audit --principal User:CN=admin -o jsonl"
    )
    done = shell(f"set -e\n{script}", secure)
    assert done.returncode == 0, done.stderr
    assert '"principal":"User:CN=admin"' in done.stdout.replace(" ", "")


def test_the_tokens_of_the_guide_are_made_and_listed(tmp_path: Path) -> None:
    [block] = [each for each in blocks("sh") if "tokens list" in each]
    done = shell(f"set -e\n{block}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "offsetd_" in done.stdout
    assert "User:dashboard" in done.stdout


def test_keycloaks_settings_are_settings_of_the_server() -> None:
    [block] = [each for each in blocks("toml") if "keycloak" in each]
    settings = load_settings(toml=block)
    settings.check_security()
    assert settings.takes_tokens


def test_the_dashboards_rules_let_it_see_everything_and_change_nothing() -> None:
    [block] = [each for each in blocks("toml") if "User:dashboard" in each]
    rules = Authorizer(acls=parse_acl_file(block, "the guide"))
    seen = {
        (operation, resource_type)
        for operation in Operation
        for resource_type in ResourceType
        if rules.allows("User:dashboard", "10.0.0.1", operation, resource_type, "kafka-cluster")
    }
    assert seen == {
        (Operation.DESCRIBE, ResourceType.GROUP),
        (Operation.DESCRIBE, ResourceType.TOPIC),
        (Operation.DESCRIBE, ResourceType.CLUSTER),
        (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
    }
    assert EVERYONE not in tomllib.loads(block)


def test_the_commands_for_rules_are_those_of_the_guide(tmp_path: Path) -> None:
    [block] = [each for each in blocks("sh") if "acls add" in each]
    settings = {"security.acl.enable": "true", "super.users": "User:ANONYMOUS"}
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        server.wait_until_serving()
        script = f"set -e\nexport OFFSETD_ADDRESS={server.address}\n{block}"
        done = shell(script, tmp_path)
        assert done.returncode == 0, done.stderr
        assert "true" in done.stdout.splitlines()[-1]


@promised(
    "A file without rules leaves only `super.users` their rights, and the server warns of it."
)
def test_a_file_without_rules_is_told_of(tmp_path: Path) -> None:
    acls = tmp_path / "acls.toml"
    acls.write_text("")
    with ServerProcess(tmp_path / "data", settings={"security.acl.file": acls}) as server:
        warned = server.wait_for_event("the file has no rules: only super.users may do anything")
    assert warned["level"] == "warning"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"ssl.certificate.file": "server.pem"}, "it needs ssl.key.file, too"),
        ({"ssl.client.auth": "required"}, "it needs ssl.truststore.file, too"),
        ({"super.users": "root"}, "'root' is not User:NAME"),
        ({"security.acl.file": "nowhere.toml"}, "nowhere.toml"),
        ({"security.tokens.file": "nowhere.toml"}, "nowhere.toml"),
        ({"ssl.principal.mapping.rules": "RULE:", "ssl.client.auth": "required"}, ""),
    ],
)
def test_wrong_settings_are_refused_at_the_start(
    tmp_path: Path, settings: dict[str, str], told: str
) -> None:
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        assert server.wait_for_exit() == 1
    assert told in server.log
    assert "Traceback" not in server.log

"""Servers with TLS, identities and rules, for all tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from certificates import Authority
from security.secured_server import ACLS, SUPER_USER, SecuredFiles
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("the authority of the tests")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> SecuredFiles:
    return SecuredFiles(tmp_path_factory.mktemp("secured"), authority)


@pytest.fixture(scope="session")
def mtls_server(
    tmp_path_factory: pytest.TempPathFactory, files: SecuredFiles
) -> Iterator[ServerProcess]:
    """It asks each client for a certificate."""
    folder: Path = tmp_path_factory.mktemp("mtls")
    acls = folder / "acls.toml"
    acls.write_text(ACLS)
    settings = {
        **files.tls_settings,
        "ssl.client.auth": "required",
        "ssl.truststore.file": files.truststore,
        "ssl.principal.mapping.rules": r"RULE:^CN=([^,+\\]+)(,.*)?$/$1/,DEFAULT",
        "security.acl.file": acls,
        "super.users": SUPER_USER,
    }
    with ServerProcess(folder / "data", settings=settings) as server:
        yield server.wait_until_serving()


@pytest.fixture(scope="session")
def token_server(
    tmp_path_factory: pytest.TempPathFactory, files: SecuredFiles
) -> Iterator[ServerProcess]:
    """It takes tokens, and asks nobody for a certificate."""
    folder: Path = tmp_path_factory.mktemp("tokens")
    acls = folder / "acls.toml"
    acls.write_text(ACLS)
    settings = {
        **files.tls_settings,
        **files.token_settings,
        "security.acl.file": acls,
        "super.users": SUPER_USER,
    }
    with ServerProcess(folder / "data", settings=settings) as server:
        yield server.wait_until_serving()

"""Tokens of pages name nothing that their reader may not see."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from offsetd.v1 import group_service_pb2
from offsetd_clients import OffsetClient, TopicPartition
from promised import promised_by
from server_process import ServerProcess, Stubs
from token_files import TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.single_server
promised = promised_by("docs/guides/security.md")

ACLS = """
[[acl]]
principal = "User:owner"
allow = ["All"]
group = "*"
[[acl]]
principal = "User:owner"
allow = ["All"]
topic = "*"
[[acl]]
principal = "User:reader"
allow = ["Describe"]
group_prefix = "open"
[[acl]]
principal = "User:reader"
allow = ["Describe"]
topic_prefix = "open"
"""
GROUP = "open-0"
NAMES = [f"{kind}-{number}" for kind in ("open", "hidden") for number in range(20)]
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str, Any], Any]]:
    """Calls a method of groups with somebody's token."""
    folder: Path = tmp_path_factory.mktemp("rights")
    tokens = TokenFile(folder / "tokens.toml")
    (folder / "acls.toml").write_text(ACLS)
    shown = {name: tokens.create(f"User:{name}")[0] for name in ("owner", "reader")}
    settings = {
        "security.acl.file": folder / "acls.toml",
        "security.tokens.file": tokens.path,
    }
    with ServerProcess(folder / "data", settings=settings).wait_until_serving() as server:
        with OffsetClient(server.address, token=shown["owner"]) as client:
            for name in NAMES:
                client.commit(name, {TopicPartition("open", 0): 1})
            client.commit(GROUP, {TopicPartition(name, 3): 5 for name in NAMES})
        with grpc.insecure_channel(server.address) as channel:
            untyped: Any = channel
            groups = Stubs(untyped).groups

            def call(method: str, caller: str, request: Any) -> Any:
                metadata = (("authorization", f"Bearer {shown[caller]}"),)
                return getattr(groups, method)(request, timeout=WAIT_SECONDS, metadata=metadata)

            yield call


def walked(ask: Any, method: str, caller: str, request: Any) -> tuple[list[Any], bytes]:
    """All pages, and what their tokens hold."""
    pages, tokens = [], b""
    while True:
        page = ask(method, caller, request)
        pages.append(page)
        request.page_token = page.next_page_token
        tokens += base64.urlsafe_b64decode(page.next_page_token)
        if not page.next_page_token:
            return pages, tokens


@promised("and the tokens of pages of groups and of their offsets do not name it.")
@pytest.mark.parametrize("page_size", [1, 3, 1000])
def test_a_list_is_paged_over_what_its_reader_sees(ask: Any, page_size: int) -> None:
    for caller, expected in (("owner", set(NAMES)), ("reader", set(NAMES[:20]))):
        request = group_service_pb2.ListGroupsRequest(page_size=page_size)
        pages, tokens = walked(ask, "ListGroups", caller, request)
        names = [each.group_id for page in pages for each in page.groups]
        assert (len(names), set(names)) == (len(expected), expected)
        if caller == "reader":
            assert b"hidden" not in tokens
            assert all(len(page.groups) == page_size for page in pages[:-1])


@pytest.mark.parametrize("page_size", [1, 3, 1000])
def test_a_groups_offsets_are_paged_over_what_their_reader_sees(ask: Any, page_size: int) -> None:
    for caller, expected in (("owner", set(NAMES)), ("reader", set(NAMES[:20]))):
        request = group_service_pb2.GetGroupRequest(
            group_id=GROUP, include_offsets=True, page_size=page_size
        )
        pages, tokens = walked(ask, "GetGroup", caller, request)
        found = [each.topic for page in pages for each in page.offsets if each.partition == 3]
        assert (len(found), set(found)) == (len(expected), expected)
        if caller == "reader":
            assert b"hidden" not in tokens
            assert all(page.offsets for page in pages[:-1])

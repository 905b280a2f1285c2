"""A viewer without rights sees neither names nor counts, and is told so in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from promised import promised_by
from server_process import ServerProcess
from token_files import TokenFile
from web.web_process import WebProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.single_server
promised = promised_by("docs/guides/web.md")

SECRET = "secret-merger"
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
principal = "User:owner"
allow = ["All"]
cluster = true
[[acl]]
principal = "User:reader"
allow = ["Describe"]
group_prefix = "bill"
"""
PATHS = (
    "/",
    "/groups",
    "/groups?q=s",
    "/log",
    "/cluster",
    "/audit",
    "/settings",
    "/acls",
    "/groups.csv",
)


class Secured:
    """A server with rules, and the tokens of its callers."""

    def __init__(self, address: str, tokens: TokenFile) -> None:
        self.address = address
        self._tokens = {
            name: tokens.create(f"User:{name}")[0] for name in ("owner", "reader", "nobody")
        }

    def token(self, name: str) -> str:
        return self._tokens[name]

    def pages(self, name: str) -> WebProcess:
        """The pages with the token of this caller."""
        return WebProcess(self.address, environment={"OFFSETD_TOKEN": self.token(name)})


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder: Path = tmp_path_factory.mktemp("rights")
    tokens = TokenFile(folder / "tokens.toml")
    callers = Secured("", tokens)
    (folder / "acls.toml").write_text(ACLS)
    settings = {
        "security.acl.file": folder / "acls.toml",
        "security.tokens.file": tokens.path,
    }
    with ServerProcess(folder / "data", settings=settings).wait_until_serving() as server:
        callers.address = server.address
        with OffsetClient(server.address, token=callers.token("owner")) as client:
            for group in (SECRET, "billing"):
                client.commit(group, {TopicPartition("orders", each): 271_828 for each in (0, 1)})
            client.delete_offsets(SECRET, [TopicPartition("orders", 1)], reason="hush-hush")
        yield callers


@pytest.mark.parametrize("caller", ["nobody", None])
def test_a_viewer_without_rights_sees_neither_names_nor_counts(
    secured: Secured, caller: str | None
) -> None:
    pages = WebProcess(secured.address) if caller is None else secured.pages(caller)
    with pages:
        for path in PATHS:
            answer = pages.get(path)
            assert answer.status in (200, 403), (path, answer.text)
            for secret in (SECRET, "billing", "orders", "271,828", "271828", "hush-hush"):
                assert secret not in answer.text, (path, secret)
        assert "You may not see this" in pages.get("/settings").text


@promised(
    "If the identity may not see something, the page says so, and shows neither names nor counts of"
    " it."
)
@pytest.mark.parametrize("caller", ["nobody", "reader", "owner"])
def test_counts_need_the_right_to_describe_the_cluster(secured: Secured, caller: str) -> None:
    with secured.pages(caller) as pages:
        overview, nodes = pages.get("/").text, pages.get("/cluster").text
    told = [f"<span>{what}</span>" in overview for what in ("groups", "offsets")]
    hidden = ["You may not see counts of groups" in text for text in (overview, nodes)]
    # Two groups, three offsets.
    shown = [
        '<td class="n">2</td>' in overview,
        '<td class="n">2</td><td class="n">3</td>' in nodes,
    ]
    is_owner = caller == "owner"
    assert (told, hidden, shown) == ([is_owner] * 2, [not is_owner] * 2, [is_owner] * 2)


def test_a_group_that_may_not_be_seen_looks_like_one_that_does_not_exist(secured: Secured) -> None:
    with secured.pages("nobody") as pages:
        for path in ("/group?name={}", "/group/history?name={}&topic=orders&partition=0"):
            answers = [pages.get(path.format(name)) for name in (SECRET, "nothing")]
            told = answers[0].text.replace(SECRET, "nothing")
            assert answers[0].status == answers[1].status
            assert told == answers[1].text


def test_a_topic_that_may_not_be_seen_finds_no_group(secured: Secured) -> None:
    with secured.pages("reader") as pages:
        answers = [pages.get(f"/groups?topic={topic}") for topic in ("orders", "nothing")]
        assert [each.status for each in answers] == [403, 403]
        assert answers[0].text.replace("orders", "nothing") == answers[1].text
        assert "billing" not in answers[0].text
        empty = pages.get("/groups?owner=sender-1").text
        assert SECRET not in empty
        assert "No group that you may see agrees with this." in empty


def test_a_viewer_with_rights_on_some_groups_sees_these(secured: Secured) -> None:
    with secured.pages("reader") as pages:
        assert "billing" in pages.get("/groups").text
        assert SECRET not in pages.get("/groups").text
        assert pages.get("/group?name=billing").status == 200
        assert pages.get(f"/group?name={SECRET}").status == 403
        overview = pages.get("/")
        assert overview.status == 200
        assert "All is well" not in overview.text


def test_an_owner_sees_everything(secured: Secured) -> None:
    with secured.pages("owner") as pages:
        assert SECRET in pages.get("/groups").text
        assert "271,828" in pages.get(f"/group?name={SECRET}").text
        assert "hush-hush" in pages.get("/audit").text
        assert "User:reader" in pages.get("/acls").text

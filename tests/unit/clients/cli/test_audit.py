"""offsetd_clients.cli.audit: methods that are asked for, run in this process."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import Ended, offsetd_of
from offsetd_clients.cli import audit

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parents[4] / "docs" / "formats" / "audit.md").read_text("utf-8")


class Nothing:
    """A client of a server whose audit log is empty."""

    def list_audit_events(self, **_: Any) -> Iterator[Any]:
        return iter(())


def test_the_methods_are_those_of_the_page() -> None:
    assert tuple(sorted(re.findall(r"^\| `([A-Z]\w+)` \|", PAGE, re.MULTILINE))) == (
        audit.AUDITED_METHODS
    )


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("ResetOffsets", ""),
        ("Foo", "Foo is not a method that this program knows\n"),
        (
            "ResetOffset",
            "ResetOffset is not a method that this program knows: did you mean ResetOffsets?\n",
        ),
    ],
)
def test_a_method_that_is_none_is_told(
    monkeypatch: pytest.MonkeyPatch, method: str, told: str
) -> None:
    @contextmanager
    def connected(*_: object) -> Iterator[Nothing]:
        yield Nothing()

    monkeypatch.setattr(audit, "connected", connected)
    ended = offsetd_of("127.0.0.1:1", monkeypatch)(
        "admin", "audit", "--method", method, "-o", "jsonl"
    )
    assert ended == Ended(0, "", told)

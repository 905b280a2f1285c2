"""offsetd_clients.cli.groups.group_changes: what is said of files, run in this process."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import Ended, offsetd_of
from offsetd_clients.cli.groups import group_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Groups:
    """A client of a server that has one group, and takes files that hold nothing."""

    def export_offsets(self, *_: object, **__: object) -> Iterator[bytes]:
        yield b'{"group": "billing"}\n'

    def import_offsets(self, *_: object, **__: object) -> list[Any]:
        return []


@pytest.fixture
def offsetd(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    @contextmanager
    def connected(*_: object) -> Iterator[Groups]:
        yield Groups()

    monkeypatch.setattr(group_changes, "connected", connected)
    return offsetd_of("127.0.0.1:1", monkeypatch)


@pytest.mark.parametrize("output", ["csv", "json", "table"])
def test_an_export_has_formats_of_its_own(offsetd: Callable[..., Ended], output: str) -> None:
    ended = offsetd("groups", "export", "billing", "-o", output)
    assert ended == Ended(
        2, "", "error: an export has formats of its own: --format csv|rpk|kafka-utils|jsonl\n"
    )


@pytest.mark.parametrize("options", [(), ("-o", "jsonl"), ("-o", "csv", "--format", "csv")])
def test_an_export_is_printed_where_nothing_else_was_asked_for(
    offsetd: Callable[..., Ended], options: tuple[str, ...]
) -> None:
    ended = offsetd("groups", "export", "billing", *options)
    assert ended == Ended(0, '{"group": "billing"}\n', "")


def test_a_file_that_cannot_be_written_is_told_in_one_sentence(
    offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    file = tmp_path / "none" / "offsets.csv"
    ended = offsetd("groups", "export", "--file", file)
    assert ended == Ended(1, "", f"error: cannot write {file}: No such file or directory\n")


def test_an_export_replaces_a_file_only_by_force(
    offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    file = tmp_path / "offsets.jsonl"
    file.write_text("kept")
    ended = offsetd("groups", "export", "--file", file)
    assert ended == Ended(1, "", f"error: {file} exists: --force replaces it\n")
    assert file.read_text() == "kept"
    ended = offsetd("groups", "export", "--file", file, "--force")
    assert (ended.code, file.read_text()) == (0, '{"group": "billing"}\n')


def test_an_import_of_nothing_says_so(offsetd: Callable[..., Ended], tmp_path: Path) -> None:
    file = tmp_path / "offsets.jsonl"
    file.touch()
    ended = offsetd("groups", "import", file, "-o", "csv")
    assert ended == Ended(0, "group,offsets,revision,problem\n", f"{file} holds no offsets\n")

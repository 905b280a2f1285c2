"""A file that is read again: what is taken, what is not, and what is told of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.security import watched_file
from offsetd_coordinator.security.watched_file import WatchedFile
from structlog.testing import capture_logs

if TYPE_CHECKING:
    from pathlib import Path


class Numbers:
    """A file of numbers, and how often its content was parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parses = 0
        path.write_text("1 2")
        self.file = WatchedFile(path, self.parse, "numbers")

    def parse(self, content: bytes) -> list[int]:
        self.parses += 1
        return list(map(int, content.split()))

    def replace(self, text: str) -> None:
        part = self.path.with_suffix(".part")
        part.write_text(text)
        part.replace(self.path)


@pytest.fixture
def numbers(tmp_path: Path) -> Numbers:
    return Numbers(tmp_path / "numbers")


def test_the_file_is_read_at_once(numbers: Numbers) -> None:
    assert numbers.file.current == [1, 2]
    assert numbers.file.problem is None


def test_a_file_that_is_wrong_or_missing_at_the_start_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    with pytest.raises(FileNotFoundError, match="numbers"):
        WatchedFile(path, int, "numbers")
    path.write_text("one")
    with pytest.raises(ValueError, match=r"numbers \(numbers\): invalid literal") as caught:
        WatchedFile(path, int, "numbers")
    assert str(caught.value).startswith(str(path))


def test_a_file_that_has_not_changed_is_not_parsed_again(numbers: Numbers) -> None:
    for _ in range(4):
        assert not numbers.file.refresh()
    assert numbers.parses == 1


def test_a_file_that_was_replaced_counts_at_once(numbers: Numbers) -> None:
    for text, expected in (("3", [3]), ("4 5 6", [4, 5, 6]), ("7", [7])):
        numbers.replace(text)
        assert numbers.file.refresh()
        assert numbers.file.current == expected
        assert not numbers.file.refresh()


def test_a_symbolic_link_that_was_exchanged_counts(numbers: Numbers, tmp_path: Path) -> None:
    # Kubernetes changes the files of a ConfigMap so.
    link, next_link = tmp_path / "link", tmp_path / "next"
    link.symlink_to(numbers.path)
    file = WatchedFile(link, numbers.parse, "numbers")
    (tmp_path / "others").write_text("8")
    next_link.symlink_to(tmp_path / "others")
    next_link.replace(link)
    assert file.refresh()
    assert file.current == [8]


def test_a_file_that_is_written_in_place_counts_when_it_holds_still(numbers: Numbers) -> None:
    numbers.file.refresh()
    for half in ("3", "3 4", "3 4 5"):  # Each one would be right.
        numbers.path.write_text(half)
        assert not numbers.file.refresh()
        assert numbers.file.current == [1, 2]
    assert numbers.file.refresh()
    assert numbers.file.current == [3, 4, 5]


def test_a_change_that_leaves_the_stamp_as_it_is_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The clock of a file system has ticks: a look, and a write just after it, may share one.
    stamp = watched_file._Stamp((1, 2), 3, 4, 5)
    monkeypatch.setattr(watched_file, "_stamp", lambda _status: stamp)
    numbers = Numbers(tmp_path / "numbers")
    numbers.path.write_text("3")
    assert numbers.file.refresh()
    assert numbers.file.current == [3]


def test_another_content_of_the_same_value_is_no_change(numbers: Numbers) -> None:
    numbers.replace("1   2\n")
    assert not numbers.file.refresh()
    assert numbers.file.current == [1, 2]


def test_a_wrong_content_leaves_the_former_value_and_is_told_once(numbers: Numbers) -> None:
    with capture_logs() as logs:
        numbers.replace("1 x")
        for _ in range(4):
            assert not numbers.file.refresh()
        assert numbers.file.current == [1, 2]
        assert numbers.file.problem is not None
        assert "numbers (numbers): invalid literal" in numbers.file.problem
        assert [each["log_level"] for each in logs] == ["warning"]
        assert logs[0]["file"] == str(numbers.path)
        assert logs[0]["problem"] == numbers.file.problem
        numbers.replace("1 y")
        numbers.file.refresh()
        assert len(logs) == 2


def test_a_right_content_ends_a_problem(numbers: Numbers) -> None:
    numbers.replace("1 x")
    numbers.file.refresh()
    numbers.replace("5")
    assert numbers.file.refresh()
    assert (numbers.file.current, numbers.file.problem) == ([5], None)


def test_the_former_content_ends_a_problem(numbers: Numbers) -> None:
    numbers.replace("x")
    numbers.file.refresh()
    numbers.replace("1 2")
    assert not numbers.file.refresh()
    assert numbers.file.problem is None
    with capture_logs() as logs:
        numbers.replace("x")
        numbers.file.refresh()
        assert len(logs) == 1


def test_a_file_that_is_gone_leaves_the_former_value_until_it_is_there_again(
    numbers: Numbers,
) -> None:
    numbers.path.unlink()
    with capture_logs() as logs:
        for _ in range(3):
            assert not numbers.file.refresh()
        assert len(logs) == 1
    assert numbers.file.current == [1, 2]
    assert "No such file" in str(numbers.file.problem)
    numbers.path.write_text("6")
    # It may be half of a file.
    assert not numbers.file.refresh()
    assert numbers.file.refresh()
    assert (numbers.file.current, numbers.file.problem) == ([6], None)


def test_a_pipe_is_refused_and_blocks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="it is no regular file"):
        WatchedFile(path, bytes, "quotas")

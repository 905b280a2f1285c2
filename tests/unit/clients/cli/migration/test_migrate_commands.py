"""`offsetd migrate`: wrong use, a missing extra, and plans that are none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import offsetd_of
from offsetd_clients.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli_calls import Ended

ZOOKEEPER = ("migrate", "zookeeper")


@pytest.fixture
def offsetd(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    return offsetd_of("127.0.0.1:1", monkeypatch)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["plan"], 1, "name the ZooKeeper"),
        (["plan", "--hosts", "h:1", "--rename", "a"], 2, "not OLD=NEW"),
        (["plan", "--hosts", "h:1", "--include", "("], 2, "regular expression"),
        (["plan", "--hosts", "h:1", "--auth", "x"], 2, "SCHEME:CREDENTIAL"),
        (["plan", "--hosts", "h:1", "--session-timeout", "0"], 2, "from 0.1 to 600"),
        (["plan", "--from-file", "nowhere"], 2, "does not exist"),
        (["run", "nowhere"], 1, "No such file"),
    ],
)
def test_wrong_use_is_told_and_nothing_is_tried(
    offsetd: Callable[..., Ended],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    ended = offsetd(*ZOOKEEPER, *arguments)
    assert (ended.code, ended.stdout) == (code, "")
    assert said in " ".join((ended.stderr + capsys.readouterr().err).split())


def test_a_file_that_is_no_plan_is_one_line(offsetd: Callable[..., Ended], tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_text("hello\n")
    for step in ("diff", "run", "mirror", "cutover", "verify", "rollback", "undo", "export"):
        ended = offsetd(*ZOOKEEPER, step, str(path))
        assert ended.code == 1
        assert ended.stderr.startswith(f"error: {path}: line 1 is not JSON\n")
        assert ended.stderr.count("\n") == 1


def test_an_export_for_zookeeper_replaces_a_file_only_by_force(
    offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    file = tmp_path / "offsets.txt"
    file.write_text("kept")
    line = (*ZOOKEEPER, "export", str(tmp_path / "plan"), "--file", str(file))
    ended = offsetd(*line)
    assert (ended.code, ended.stderr) == (1, f"error: {file} exists: --force replaces it\n")
    assert file.read_text() == "kept"
    assert "plan" in offsetd(*line, "--force").stderr  # There is none, which comes next.


def test_a_store_whose_extra_is_missing_does_not_hide_the_other(
    offsetd: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Missing:
        def find_spec(self, name: str, *_: Any) -> None:
            if name.partition(".")[0] == "kazoo":
                raise ModuleNotFoundError(name=name)

    ours = [name for name in sys.modules if "zookeeper" in name and name.startswith("offsetd")]
    for name in [*ours, *(name for name in sys.modules if name.partition(".")[0] == "kazoo")]:
        monkeypatch.delitem(sys.modules, name)
    package = sys.modules["offsetd_clients.cli.migration"]
    for name in ("migrate_zookeeper", "migrate_zookeeper_move", "zookeeper_options"):
        monkeypatch.delattr(package, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    ended = offsetd(*ZOOKEEPER, "plan", "--hosts", "h:1")
    assert ended.code == 1
    assert f"kazoo is not installed: {install_command('zookeeper')}" in ended.stderr
    assert offsetd("migrate", "kafka", "--help").code == 0

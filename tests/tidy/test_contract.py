"""`.ci/contract` refuses every change of the contract that an older client or server would meet."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
VENV: Final = ROOT / ".venv-protos"

pytestmark = pytest.mark.skipif(
    not (VENV / "bin/buf").exists(), reason="`make protos-check` makes .venv-protos"
)

# What is replaced in the contract, and by what.
BREAKS: Final = {
    "a field's number": ("int64 log_offset = 2;", "int64 log_offset = 22;"),
    "a field's type": ("int64 log_offset = 2;", "int32 log_offset = 2;"),
    "a field's name": ("int64 log_offset = 2;", "int64 log_position = 2;"),
    "a field's label": ("int64 log_offset = 2;", "repeated int64 log_offset = 2;"),
    "a field's presence": ("optional int32 leader_epoch = 4;", "int32 leader_epoch = 4;"),
    "a field that is gone": ("int64 log_offset = 2;", ""),
    "a field that leaves its oneof": (
        "bool must_not_exist = 8;\n  }",
        "}\n  bool must_not_exist = 8;",
    ),
    "a message that is gone": ("TopicPartition", "TopicPart"),
    "an enum value's number": ("GROUP_STATE_DEAD = 7;", "GROUP_STATE_DEAD = 77;"),
    "an enum value's name": ("GROUP_STATE_DEAD = 7;", "GROUP_STATE_GONE = 7;"),
    "a method that is gone": ("rpc Heartbeat(HeartbeatRequest) returns (HeartbeatResponse);", ""),
    "a method's request": ("Heartbeat(HeartbeatRequest)", "Heartbeat(SyncGroupRequest)"),
    "a method that no longer streams": ("(stream StreamCommitsRequest)", "(StreamCommitsRequest)"),
    "the package": ("package offsetd.v1;", "package offsetd.v2;"),
}
ADDITIONS: Final = {
    "a field": ("int64 log_offset = 2;", "int64 log_offset = 2; int64 more = 1000;"),
    "an enum value": ("GROUP_STATE_DEAD = 7;", "GROUP_STATE_DEAD = 7; GROUP_STATE_MORE = 99;"),
    "a message": ("message TopicPartition {", "message More {}\nmessage TopicPartition {"),
}


def checked(folder: Path, old: str, new: str) -> tuple[int, str]:
    """The exit code and the output of the check, for a copy of the contract with one change."""
    shutil.copytree(ROOT / "protos/offsetd", folder / "offsetd")
    texts = {path: path.read_text() for path in folder.rglob("*.proto")}
    assert any(old in text for text in texts.values()), f"the contract no longer has {old!r}"
    for path, text in texts.items():
        path.write_text(text.replace(old, new))
    ran = subprocess.run(
        [ROOT / ".ci/contract", VENV, folder], capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("what", BREAKS)
def test_a_break_is_refused_and_says_of_which_release(what: str, tmp_path: Path) -> None:
    code, told = checked(tmp_path, *BREAKS[what])
    assert "The contract breaks programs made for release 0.1.0." in told
    assert code == 1


@pytest.mark.parametrize("what", ADDITIONS)
def test_an_addition_is_allowed(what: str, tmp_path: Path) -> None:
    code, told = checked(tmp_path, *ADDITIONS[what])
    assert code == 0, told

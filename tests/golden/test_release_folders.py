"""Folders of each release, stopped and killed: a server of today answers about them as it did."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from promised import promised_by
from release_answers import PARTITIONS, SETTINGS, answers, commit, has_rules
from releases import GOLDEN
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.single_server]

promised = promised_by("docs/upgrading.md")
RELEASES = sorted(path.name for path in GOLDEN.glob("offsetd-*") if path.is_dir())
ENDS = ("stopped", "killed")


@pytest.fixture(
    params=[f"{release}/{end}" for release in RELEASES for end in ("stopped", "killed")]
)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, dict[str, Any]]:
    """A release, a copy of its folder, and what it answered about it."""
    path = GOLDEN / request.param
    with tarfile.open(path.with_suffix(".tar.xz")) as archive:
        archive.extractall(tmp_path / "data", filter="data")
    release = path.parent.name.removeprefix("offsetd-")
    return release, tmp_path / "data", json.loads(path.with_suffix(".json").read_text())


@promised("It opens the folder of any earlier release as it is, and checks every batch.")
def test_a_server_of_today_answers_as_the_release_did(
    kept: tuple[str, Path, dict[str, Any]],
) -> None:
    release, folder, expected = kept
    acknowledged = expected.pop("acknowledged", {})
    for group, offset in acknowledged.items():
        assert expected["groups"][group]["offsets"][0][2] >= offset
    with ServerProcess(folder, settings=SETTINGS).wait_until_serving() as server:
        stubs = Stubs(server.channel())
        assert json.loads(json.dumps(answers(stubs, rules=has_rules(release)))) == expected
        fencing_goes_on(stubs, expected["groups"])
        log_offsets_go_on(stubs, expected["groups"])
        server.stop_well()
    with ServerProcess(folder, settings=SETTINGS).wait_until_serving() as server:
        again = answers(Stubs(server.channel()), rules=False)["groups"]
        assert again["billing"]["offsets"][0][2] == 2001
        assert [again[group] for group in ("kept", "members")] == [
            expected["groups"][group] for group in ("kept", "members")
        ]
        server.stop_well()


def fencing_goes_on(stubs: Stubs, groups: dict[str, Any]) -> None:
    """The lease's epoch still fences, and the holder still commits."""
    holder, epoch = groups["leased"]["lease"]
    assert holder == "b"
    with pytest.raises(grpc.RpcError) as refused:
        stubs.offsets.CommitOffsets(commit("leased", {0: 1}, epoch=epoch - 1))
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    stubs.offsets.CommitOffsets(commit("leased", {0: 1}, epoch=epoch))


def log_offsets_go_on(stubs: Stubs, groups: dict[str, Any]) -> None:
    """A commit gets a revision above all that the release has given out in its log partition."""
    highest = [-1] * PARTITIONS
    for group in groups.values():
        revisions = [offset[-1] for offset in group["offsets"]]
        place = group["log_partition"]
        highest[place] = max(highest[place], *revisions, group["lease"][1])
    answered = stubs.offsets.CommitOffsets(commit("billing", {0: 2001})).revision
    assert answered.log_offset > highest[answered.log_partition]

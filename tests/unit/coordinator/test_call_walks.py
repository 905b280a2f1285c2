"""A commit and a fetch go down through the rooms and come back: no room calls one above it.

They pass through few modules, because a reader has to follow them.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from listening_servers import listening
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.node import NodeState
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PACKAGES: Final = ("offsetd_coordinator", "offsetd_storage")  # The upper one first.
OURS: Final = re.compile(rf"/(({'|'.join(PACKAGES)})/(?!.*\bkernels/).*)\.py$")

COMMIT: Final = offset_service_pb2.CommitOffsetsRequest(
    group_id="g", offsets=[offset_service_pb2.OffsetCommit(topic="t", partition=0, offset=5)]
)
FETCH: Final = offset_service_pb2.FetchOffsetsRequest(
    groups=[offset_service_pb2.GroupSelection(group_id="g")]
)
# A number falls when modules are merged. Before it rises: does the call need one more module?
MODULES_MAX: Final = {"CommitOffsets": 37, "FetchOffsets": 22}
DISK: Final = "offsetd_storage/disk/"  # Not counted: the disk of these tests is simulated.
CALLS: Final = 3  # What the event loop does beside one of them is in no other.
THREADS: Final = ("MainThread", "flush")  # Those that a call needs: the event loop's, and this.


def ranks() -> dict[tuple[str, str], tuple[int, int]]:
    """The place of each room, from the import contracts: a larger one is further down."""
    contracts = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["importlinter"]
    return {
        (package, room.strip()): (PACKAGES.index(package), place)
        for contract in contracts["contracts"]
        if contract.get("exhaustive")
        for package in contract["containers"]
        for place, layer in enumerate(contract["layers"])
        for room in layer.split(":")
    }


def room_of(module: str) -> tuple[str, str]:
    package, room = module.split("/")[:2]
    return package, room


class Step(NamedTuple):
    """A function that was called, and the module of ours that called it, if any."""

    module: str
    function: str
    caller: str | None


class Walk:
    """Records each call of a function of ours on the threads that a call needs."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.is_recording = False

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """What `sys.setprofile` takes."""
        found = OURS.search(frame.f_code.co_filename) if event == "call" else None
        if found is None or not self.is_recording:
            return
        if threading.current_thread().name not in THREADS:
            return
        callers = (OURS.search(each.f_code.co_filename) for each in _above(frame))
        caller = next((each[1] for each in callers if each is not None), None)
        self.steps.append(Step(found[1], frame.f_code.co_qualname, caller))


def _above(frame: FrameType) -> Iterator[FrameType]:
    while frame.f_back is not None:
        frame = frame.f_back
        yield frame


async def walks_of(method: str, request: Any, calls: int = 1) -> list[list[Step]]:
    """The steps of each of some calls on a server that has answered the same call before."""
    walk, walks = Walk(), []
    threading.setprofile(walk.note)
    try:
        async with listening() as each:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while each.server.node.state is not NodeState.SERVING:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            call = each.channel.unary_unary(f"/offsetd.v1.OffsetService/{method}")
            message = request.SerializeToString()
            await call(message)
            sys.setprofile(walk.note)
            for _ in range(calls):
                walk.is_recording = True
                await call(message)
                walk.is_recording = False
                walks.append(walk.steps)
                walk.steps = []
            return walks
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "request_message"), [("CommitOffsets", COMMIT), ("FetchOffsets", FETCH)]
)
async def test_no_room_calls_one_above_it(method: str, request_message: Any) -> None:
    [steps], places = await walks_of(method, request_message), ranks()
    upwards = {
        step
        for step in steps
        if step.caller and places[room_of(step.caller)] > places[room_of(step.module)]
    }
    assert upwards == set()
    assert "offsetd_coordinator/shard/shard" in {each.module for each in steps}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "request_message"), [("CommitOffsets", COMMIT), ("FetchOffsets", FETCH)]
)
async def test_a_call_passes_through_few_modules(method: str, request_message: Any) -> None:
    walks = await walks_of(method, request_message, CALLS)
    modules = set.intersection(*({step.module for step in steps} for steps in walks))
    counted = sorted(each for each in modules if not each.startswith(DISK))
    assert len(counted) <= MODULES_MAX[method], counted
    assert "offsetd_coordinator/shard/shard" in counted

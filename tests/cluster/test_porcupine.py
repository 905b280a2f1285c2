"""Porcupine, another judge of histories, says of planted and drawn ones what ours says."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import attrs
import pytest
from chance import session_seed
from history_checker import (
    Acquire,
    Call,
    Commit,
    Deleted,
    Fetched,
    NotSerializable,
    Operation,
    Outcome,
    Refused,
    Release,
    Written,
    check_history,
)
from planted_histories import BAD, GOOD, Life

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SOURCES: Final = Path(__file__).parent / "porcupine"
BUILD_S_MAX: Final = 600
LIVES: Final = 300
CALLS: Final = 80  # Of a life; short, because Porcupine knows nothing of revisions.
CLIENTS: Final = 4

Judge: TypeAlias = "Callable[[Sequence[list[Operation]]], list[bool]]"


def no_go(reason: str) -> NoReturn:
    """Skips the tests; fails them if OFFSETD_REQUIRE names go."""
    if "go" in os.environ.get("OFFSETD_REQUIRE", "").split(","):
        pytest.fail(f"OFFSETD_REQUIRE asks for Go: {reason}", pytrace=False)
    pytest.skip(f"Porcupine cannot be built here: {reason}")


@pytest.fixture(scope="module")
def porcupine(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """Whether each history is linearizable, by Porcupine."""
    go = shutil.which("go")
    if go is None:
        no_go("there is no go")
    program = tmp_path_factory.mktemp("porcupine") / "judge"
    built = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=SOURCES,
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
        check=False,
    )
    if built.returncode != 0:
        no_go(built.stderr)

    def judge(histories: Sequence[list[Operation]]) -> list[bool]:
        text = json.dumps([as_json(history) for history in histories])
        said = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
        verdicts = json.loads(said.stdout)
        assert set(verdicts) <= {"Ok", "Illegal"}, "it has not found out in time"
        return [verdict == "Ok" for verdict in verdicts]

    return judge


def as_json(history: list[Operation]) -> list[dict[str, Any]]:
    """As the program takes it: times as their ranks, -1 for an answer that never came."""
    times = sorted({time for each in history for time in (each.called, each.answered)} - {math.inf})
    rank = {time: number for number, time in enumerate(times)}
    return [
        {
            "client": number,
            "called": rank[each.called],
            "answered": rank.get(each.answered, -1) if each.outcome is not None else -1,
            "call": call_as_json(each.call),
            "outcome": None if each.outcome is None else outcome_as_json(each.outcome, each.call),
        }
        for number, each in enumerate(history)
    ]


def call_as_json(call: Call) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": type(call).__name__}
    if isinstance(call, Commit):
        said["values"] = [{"partition": each, "value": value} for each, value in call.values]
        said["epoch"] = call.epoch
        said["condition"] = None if call.condition is None else attrs.asdict(call.condition)
    elif isinstance(call, Acquire):
        said |= {"holder": call.holder, "force": call.force}
    elif isinstance(call, Release):
        said["epoch"] = call.epoch
    return said


def outcome_as_json(outcome: Outcome, call: Call) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": type(outcome).__name__}
    match outcome:
        case Written() | Deleted():
            said |= attrs.asdict(outcome)
        case Fetched(offsets):
            names = ("partition", "value", "revision")
            said["offsets"] = [dict(zip(names, each, strict=True)) for each in offsets]
        case Refused():
            said |= {"reason": outcome.reason, "holder": outcome.holder}
            said["holder_epoch"] = outcome.holder_epoch
            if outcome.stored is not None:
                assert isinstance(call, Commit)
                assert call.condition is not None
                value, revision = outcome.stored
                where = call.condition.partition
                said["stored"] = {"partition": where, "value": value, "revision": revision}
    return said


def ours(history: list[Operation]) -> bool:
    """What our judge says."""
    try:
        check_history(history)
    except NotSerializable:
        return False
    return True


def falsified(history: list[Operation], rng: random.Random) -> list[Operation]:
    """With the outcome of one call at another of its kind, or with an outcome that is gone."""
    answered = [each for each in history if each.outcome is not None]
    for _ in range(100):
        one, other = rng.sample(answered, 2)
        if type(one.call) is type(other.call) and one.outcome != other.outcome:
            false = attrs.evolve(one, outcome=other.outcome)
            if not (isinstance(false.outcome, Refused) and false.outcome.stored):
                return [false if each is one else each for each in history]
    return history


def test_it_finds_the_same_planted_histories_bad(porcupine: Judge) -> None:
    assert porcupine([*GOOD.values()]) == [True] * len(GOOD)
    assert porcupine([*BAD.values()]) == [False] * len(BAD)


def test_it_says_the_same_of_lives_and_of_falsified_ones(porcupine: Judge) -> None:
    rng = random.Random(seed := session_seed())
    print(f"OFFSETD_TEST_SEED={seed}")
    lives = [Life(rng).run(CALLS, CLIENTS) for _ in range(LIVES)]
    histories = [*lives, *(falsified(life, rng) for life in lives)]
    verdicts = [*map(ours, histories)]
    assert all(verdicts[:LIVES])
    assert verdicts[LIVES:].count(False) > LIVES / 2
    theirs = porcupine(histories)
    differing = [
        history
        for history, our, their in zip(histories, verdicts, theirs, strict=True)
        if our is not their
    ]
    assert not differing, differing[0]

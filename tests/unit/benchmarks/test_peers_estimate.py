"""How long the benchmark beside peers says that it will take."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers import __main__ as command
from benchmarks.peers.estimate import Estimate, estimated


def seconds(*arguments: str) -> dict[str, float]:
    options = command.parsed(list(arguments))
    plan = command.planned(options, Path("unused"))
    return estimated(options.systems, options.parts, plan, options.scale).parts


def test_only_what_is_asked_for_is_counted() -> None:
    assert list(seconds("--parts", "disk,native")) == ["disk", "native"]
    assert seconds("--systems", "bare", "--parts", "python") == {"python": 0.0}


def test_each_measurement_is_counted_with_its_warm_up() -> None:
    arguments = ["--parts", "native", "--callers", "1", "--rounds", "2"]
    one_second = seconds(*arguments, "--seconds", "1")["native"]
    two_seconds = seconds(*arguments, "--seconds", "2")["native"]
    # Of one caller's four works, the bare server's two clients do two, and the eight others all.
    # One more second is one and a quarter, twice.
    assert two_seconds - one_second == (2 * 2 + 7 * 4) * 1.25 * 2


def test_the_works_of_the_targets_take_less_than_all() -> None:
    few, all_works = seconds("--works", "targets"), seconds()
    assert few["native"] < all_works["native"] / 2
    assert few["python"] < all_works["python"] / 2
    assert few["disk"] == all_works["disk"]


def test_a_smaller_scale_loads_and_waits_less() -> None:
    small, whole = seconds("--scale", "0.1"), seconds()
    assert small["load"] < whole["load"]
    assert small["disk"] < whole["disk"] / 2


def test_it_is_said_in_minutes() -> None:
    told = str(Estimate(parts={"native": 119.0, "load": 59.0}))
    assert told == "about 3 minutes: native 2, load less than 1"

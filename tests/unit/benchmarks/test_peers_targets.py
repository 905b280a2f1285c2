"""Ratios beside their targets, from figures that are made up."""

from __future__ import annotations

import json

import attrs
import pytest

from benchmarks.peers import targets, works
from benchmarks.peers.results import Results
from benchmarks.peers.works import Measured

MEASURED = Measured(
    commits_a_second=1000.0,
    p50_us=100.0,
    p99_us=200.0,
    fetch_p50_us=0.0,
    server_us=50.0,
    generator_us=10.0,
)


def measured(**fields: float) -> Measured:
    return attrs.evolve(MEASURED, **fields)


def results(**parts: dict[str, dict[str, list[Measured | None]]]) -> Results:
    return Results(machine={"date": "2026-11-21T10:00:00+00:00"}, versions={}, loops=parts)


def judged(title: str, found: Results) -> targets.Judged:
    [target] = [each for each in targets.TARGETS if each.title == title]
    return target.judged(found)


@pytest.mark.parametrize(
    ("numerators", "denominators", "ratios"),
    [
        ([4.0, 9.0], [2.0, 3.0], [2.0, 3.0]),
        ([4.0, None], [2.0, 3.0], [2.0]),
        ([4.0, 9.0], [None, 3.0], [3.0]),
        ([4.0], [0.0], []),
        ([4.0], [], []),
    ],
)
def test_a_ratio_is_of_rounds_that_both_have(
    numerators: targets.Rounds, denominators: targets.Rounds, ratios: list[float]
) -> None:
    assert targets.over(numerators, denominators) == ratios


def test_the_largest_other_is_that_of_each_round() -> None:
    others: list[targets.Rounds] = [[1.0, 5.0, None], [], [3.0, None, None]]
    assert targets.largest(others) == [3.0, 5.0, None]


@pytest.mark.parametrize(
    ("ours", "kafkas", "verdict"),
    [
        ([2000.0], [1000.0], "reached"),
        ([1999.0], [1000.0], "not reached"),
        ([3000.0, 1000.0, 2100.0], [1000.0, 1000.0, 1000.0], "reached"),
        ([], [1000.0], "not measured"),
    ],
)
def test_the_median_round_is_judged(ours: list[float], kafkas: list[float], verdict: str) -> None:
    work = str(works.MANY_CALLERS)
    found = results(
        native={
            work: {
                "offsetd": [measured(commits_a_second=each) for each in ours],
                "kafka": [measured(commits_a_second=each) for each in kafkas],
            }
        }
    )
    of_kafka = judged(f"native, {work}: offsetd over kafka", found)
    assert of_kafka.verdict == verdict
    assert of_kafka.wanted == "≥ 2"


@pytest.mark.parametrize("work", [works.MANY_CALLERS, works.MANY_PARTITIONS])
def test_redis_is_judged_as_it_comes_and_with_automatic_pipelines(work: works.Work) -> None:
    found = results(
        native={
            str(work): {
                "offsetd": [measured(commits_a_second=2000.0)],
                "redis": [measured(commits_a_second=1000.0)],
                "redis-pipelined": [measured(commits_a_second=4000.0)],
            }
        }
    )
    as_it_comes = judged(f"native, {work}: offsetd over redis (as it comes)", found)
    pipelined = judged(f"native, {work}: offsetd over redis-pipelined (automatic pipelines)", found)
    assert (as_it_comes.wanted, as_it_comes.verdict) == ("≥ 1", "reached")
    assert (pipelined.wanted, pipelined.verdict) == ("≥ 1", "not reached")


def test_the_works_of_the_targets_are_all_that_targets_ask_for() -> None:
    def a_round(part: str) -> dict[str, dict[str, list[Measured | None]]]:
        contestants = ["offsetd", "bare-stream", *targets.PEERS, "redis-pipelined"]
        return {
            str(work): {name: [MEASURED] for name in contestants}
            for work in works.SIDE_BY_SIDE["targets"][part]
        }

    found = results(native=a_round("native"), python=a_round("python"))
    missing = [
        each.title
        for each in targets.TARGETS
        if each.judged(found).found is None and each.title.startswith(("native", "Python"))
    ]
    assert missing == []
    assert judged("1 caller, p50: offsetd over kafka", found).found is not None


def test_the_cpu_of_a_call_is_compared_by_its_difference() -> None:
    pair = {
        "offsetd-unary": [measured(server_us=390.0), measured(server_us=400.0)],
        "bare-unary": [measured(server_us=300.0), None],
    }
    found = judged(
        "the same: server CPU a commit, offsetd less bare, µs",
        results(transport={str(works.MANY_CONNECTIONS): pair}),
    )
    assert found.found is not None
    assert found.found.median == 90.0
    assert found.verdict == "not reached"


def test_beside_a_tuned_transport_figures_are_told_and_not_judged() -> None:
    work = str(works.MANY_CONNECTIONS)
    found = results(
        transport={
            work: {
                "offsetd-unary": [measured(commits_a_second=80.0, server_us=390.0)],
                "bare-unary": [measured(commits_a_second=100.0, server_us=300.0)],
                "bare-tuned-unary": [measured(commits_a_second=160.0, server_us=200.0)],
            }
        }
    )
    ratio = judged("unary, 64 connections, pinned: offsetd over bare-tuned", found)
    more = judged("the same: server CPU a commit, offsetd less bare-tuned, µs", found)
    assert ratio.found is not None
    assert more.found is not None
    assert (ratio.found.median, ratio.wanted, ratio.verdict) == (0.5, "", "")
    assert (more.found.median, more.wanted, more.verdict) == (190.0, "", "")


def test_one_callers_limit_is_a_call_and_a_sync() -> None:
    found = results(
        transport={
            str(works.ONE): {
                "offsetd-unary": [measured(p50_us=390.0)],
                "bare-unary": [measured(p50_us=200.0)],
            }
        }
    )
    found.states[targets.SYNC] = {"disk": [100.0]}
    title = "1 caller, p50: offsetd-unary over bare-unary and one fdatasync"
    assert judged(title, found).verdict == "reached"
    found.states[targets.SYNC] = {"disk": [99.0]}
    assert judged(title, found).verdict == "not reached"


def test_a_load_is_what_is_more_than_an_empty_start() -> None:
    found = results()
    found.states[targets.LOAD] = {"kafka": [13.0], "offsetd": [2.0]}
    found.states[targets.LOAD_EMPTY] = {"kafka": [3.0], "offsetd": [1.5]}
    whole = judged("restart to first answer, 1 M offsets: kafka over offsetd", found)
    alone = judged("the same, less what an empty server takes: kafka over offsetd", found)
    assert whole.found is not None
    assert alone.found is not None
    assert (whole.found.median, whole.verdict) == (6.5, "not reached")
    assert (alone.found.median, alone.verdict) == (20.0, "")


def test_every_target_has_a_title_of_its_own_and_is_told_when_nothing_was_measured() -> None:
    titles = [each.title for each in targets.TARGETS]
    assert len(set(titles)) == len(titles)
    assert {each.judged(results()).verdict for each in targets.TARGETS} == {"not measured"}


def test_results_come_back_from_json() -> None:
    found = results(native={str(works.ONE): {"offsetd": [measured(p50_us=1.5), None]}})
    found.states[targets.LOAD] = {"kafka": [13.0, None]}
    found.left_out["redis"] = "no redis-server"
    found.failed.append("native, round 2: no")
    assert Results.from_json(json.loads(json.dumps(found.as_json()))) == found


def test_a_generators_figures_are_for_each_commit() -> None:
    told = {
        "commits": 300,
        "all_commits": 400,
        "seconds": 1.5,
        "p50_us": 7.0,
        "p99_us": 9.0,
        "fetch_p50_us": 0.0,
        "generator_cpu_s": 0.02,
    }
    found = Measured.of(json.dumps(told), 0.04)
    assert (found.commits_a_second, found.server_us, found.generator_us) == (200.0, 100.0, 50.0)
    with pytest.raises(RuntimeError, match="no commit was answered"):
        Measured.of(json.dumps({**told, "commits": 0}), 0.04)

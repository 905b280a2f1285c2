"""The benchmark beside peers, in its shortest form: ours and the bare server, every part of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from interop.test_go_example import no_go

from benchmarks.peers import __main__ as command
from benchmarks.peers import generators, targets, works
from benchmarks.peers.results import Results
from benchmarks.peers.server import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from interop.served_folder import ServedFolder

ROOT: Final = Path(__file__).parents[2]
SECONDS: Final = "0.1"
# So much is kept that there are more groups than callers: each of them has to be filled.
SHORT: Final = ["--rounds", "1", "--seconds", SECONDS, "--scale", "0.004", "--callers", "1,64"]


@pytest.fixture(scope="module")
def generator() -> None:
    """The program in Go."""
    try:
        generators.build()
    except Unavailable as unavailable:
        no_go(str(unavailable))


def test_the_load_in_python_fetches_what_it_has_committed(
    serve: Callable[[Path], ServedFolder], tmp_path: Path
) -> None:
    server = serve(tmp_path / "data")
    with server.running():
        load = [sys.executable, "-m", "benchmarks.peers.python_load", "offsetd", server.address]
        ended = subprocess.run(
            [*load, "3", "50", "1", "0", SECONDS],  # Callers, partitions, with fetches, no warm-up.
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["all_commits"] >= found["commits"] > 0
    assert found["p99_us"] >= found["p50_us"] > 0
    assert found["fetch_p50_us"] > 0


@pytest.mark.slow
def test_the_short_form_has_a_figure_for_everything(
    generator: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, page = tmp_path / "found.json", tmp_path / "page"
    outputs = ["--json", str(written), "--page", str(page), "--folder", str(tmp_path)]
    command.main([*SHORT, *outputs, "--systems", "offsetd,bare"])
    results = Results.from_json(json.loads(written.read_text()))
    assert results.failed == []
    assert {*results.left_out} <= {"offsetd-wire"}  # It may be installed here or not.
    everything = {str(work) for work in works.WORKS if work.callers in {1, 64}}
    assert everything == set(results.loops["native"]) == set(results.loops["python"])
    fleet = {str(work) for work in works.FLEET if work.callers in {1, 64}}
    assert fleet == set(results.loops["fleet"])
    of_many = results.loops["fleet"][str(works.MANY_CONNECTIONS)]
    assert {"offsetd-grpcio", "bare", "offsetd-naive", "offsetd"} <= {*of_many}
    for part, of_works in results.loops.items():
        for work, contestants in of_works.items():
            assert contestants, f"{part}, {work}"
            assert all(len(each) == 1 and each[0] for each in contestants.values())
    for state in (targets.LOAD, targets.LOAD_EMPTY, targets.MEMORY, targets.DISK):
        assert len(results.state(state, "offsetd")) == 1
    judged = [each.judged(results) for each in targets.TARGETS]
    found = [each.target.title for each in judged if each.found is not None]
    assert [title for title in found if not title.startswith(targets.FLEET)] == [
        title
        for bare in ("bare", "bare-tuned")
        for title in (
            f"unary, 64 connections, pinned: offsetd over {bare}",
            f"the same: server CPU a commit, offsetd less {bare}, µs",
            f"a message a commit, pinned, 256 callers, 1 partition: offsetd over {bare}",
            f"a message a commit, pinned, 256 callers, 50 partitions: offsetd over {bare}",
            f"1 caller, p50: offsetd-unary over {bare}-unary and one fdatasync",
        )
    ] + ["1 caller, p50: offsetd-unary over a bare server that syncs once a call"]
    assert "What it is to show" in capsys.readouterr().out
    assert (page / "report.html").exists()
    assert list(page.glob("*.svg"))

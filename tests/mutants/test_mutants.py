"""The tests prove themselves: with each planted bug, a test that should notice does fail.

A mutant is one replacement in one source file, applied to a copy of the packages; the test that
has to catch it runs against the copy. CI replays a third, chosen by the commit, and `make nightly`
all of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from chance import session_seed
from mutants.planted import MUTANTS as STORE_MUTANTS
from mutants.planted import Mutant
from mutants.planted_administration import ADMINISTRATION_MUTANTS
from mutants.planted_archive import ARCHIVE_MUTANTS
from mutants.planted_audit import AUDIT_MUTANTS
from mutants.planted_bulk_migration import BULK_MIGRATION_MUTANTS
from mutants.planted_cleaner import CLEANER_MUTANTS
from mutants.planted_clients import CLIENT_MUTANTS
from mutants.planted_command_line import COMMAND_LINE_MUTANTS
from mutants.planted_connections import CONNECTION_MUTANTS
from mutants.planted_consumer import CONSUMER_MUTANTS
from mutants.planted_doubts import DOUBT_MUTANTS
from mutants.planted_expiry import EXPIRY_MUTANTS
from mutants.planted_fetches import FETCH_MUTANTS
from mutants.planted_flushes import FLUSH_MUTANTS
from mutants.planted_full_disk import FULL_DISK_MUTANTS
from mutants.planted_guarantees import GUARANTEE_MUTANTS
from mutants.planted_guards import GUARD_MUTANTS
from mutants.planted_history import HISTORY_MUTANTS
from mutants.planted_hostile import HOSTILE_MUTANTS
from mutants.planted_journal_room import JOURNAL_ROOM_MUTANTS
from mutants.planted_kafka import KAFKA_MUTANTS
from mutants.planted_large_changes import LARGE_CHANGE_MUTANTS
from mutants.planted_late_writes import LATE_WRITE_MUTANTS
from mutants.planted_leases import LEASE_MUTANTS
from mutants.planted_lives import LIFE_MUTANTS
from mutants.planted_membership import MEMBERSHIP_MUTANTS
from mutants.planted_migration import MIGRATION_MUTANTS
from mutants.planted_pipeline import PIPELINE_MUTANTS
from mutants.planted_queries import QUERY_MUTANTS
from mutants.planted_runs import RUN_MUTANTS
from mutants.planted_segments import SEGMENT_MUTANTS
from mutants.planted_spark_writes import SPARK_WRITE_MUTANTS
from mutants.planted_starts import START_MUTANTS
from mutants.planted_streams import STREAM_MUTANTS
from mutants.planted_swaps import SWAP_MUTANTS
from mutants.planted_table import TABLE_MUTANTS
from mutants.planted_upkeep import UPKEEP_MUTANTS

pytestmark = pytest.mark.long(minutes=30)

MUTANTS = (
    *STORE_MUTANTS,
    *CLEANER_MUTANTS,
    *SWAP_MUTANTS,
    *CONNECTION_MUTANTS,
    *FULL_DISK_MUTANTS,
    *UPKEEP_MUTANTS,
    *TABLE_MUTANTS,
    *FLUSH_MUTANTS,
    *JOURNAL_ROOM_MUTANTS,
    *GUARANTEE_MUTANTS,
    *EXPIRY_MUTANTS,
    *ADMINISTRATION_MUTANTS,
    *MEMBERSHIP_MUTANTS,
    *LEASE_MUTANTS,
    *LIFE_MUTANTS,
    *GUARD_MUTANTS,
    *SEGMENT_MUTANTS,
    *HISTORY_MUTANTS,
    *HOSTILE_MUTANTS,
    *MIGRATION_MUTANTS,
    *KAFKA_MUTANTS,
    *CONSUMER_MUTANTS,
    *CLIENT_MUTANTS,
    *COMMAND_LINE_MUTANTS,
    *PIPELINE_MUTANTS,
    *BULK_MIGRATION_MUTANTS,
    *AUDIT_MUTANTS,
    *ARCHIVE_MUTANTS,
    *STREAM_MUTANTS,
    *RUN_MUTANTS,
    *SPARK_WRITE_MUTANTS,
    *QUERY_MUTANTS,
    *FETCH_MUTANTS,
    *LARGE_CHANGE_MUTANTS,
    *LATE_WRITE_MUTANTS,
    *START_MUTANTS,
    *DOUBT_MUTANTS,
)

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("protos", "storage", "coordinator", "clients", "pipeline")
TESTS_FAILED_EXIT = 1  # pytest: tests ran and some failed; a broken import or no test is another


def chosen_mutants() -> list[Mutant]:
    """All of them at night; else the third that the checked out commit chooses, by its tree."""
    if os.environ.get("OFFSETD_NIGHTLY"):
        return list(MUTANTS)
    turn = session_seed() % 3
    return [mutant for place, mutant in enumerate(MUTANTS) if place % 3 == turn]


def plant(mutant: Mutant, folder: Path) -> dict[str, str]:
    """Copies the packages, applies the mutant; returns the environment that imports the copy."""
    for root in SOURCE_ROOTS:
        shutil.copytree(ROOT / root, folder / root, ignore=shutil.ignore_patterns("__pycache__"))
    target = folder / mutant.file
    source = target.read_text()
    assert source.count(mutant.replace) == 1, f"{mutant.file} has changed: mend the mutant"
    mutated = source.replace(mutant.replace, mutant.by)
    compile(mutated, mutant.file, "exec")
    target.write_text(mutated)
    roots = os.pathsep.join(str(folder / root) for root in SOURCE_ROOTS)
    # At their short settings: a test that notices does so soon.
    environment = {name: value for name, value in os.environ.items() if name != "OFFSETD_NIGHTLY"}
    return environment | {
        "PYTHONPATH": roots,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "unshrunk",
        "OFFSETD_TEST_PATIENCE_SECONDS": "20",
    }


def run_test(node: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs one test, or the tests of one file, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", node]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.parametrize("mutant", chosen_mutants(), ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught(mutant: Mutant, tmp_path: Path) -> None:
    environment = plant(mutant, tmp_path)
    outcome = run_test(mutant.caught_by, environment)
    assert outcome.returncode == TESTS_FAILED_EXIT, (
        f"{mutant.caught_by} did not notice: {mutant.name}\n{outcome.stdout[-3000:]}"
        f"\n{outcome.stderr[-2000:]}"
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_still_applies(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.replace) == 1

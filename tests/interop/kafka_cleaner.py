"""Kafka's own log cleaner, run over partition folders by `KafkaCleaner.java`."""

import json
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from compaction.logs import Case, CleanerSettings

from deploy.kafka.kafka_runtime import KafkaUnavailable, LocalRuntime

HARNESS = Path(__file__).with_name("KafkaCleaner.java")
TOPIC = "compacted"


@attrs.frozen(kw_only=True)
class RoundReport:
    """What Kafka's cleaner did in a round. Where it had nothing to clean, the figures are None."""

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    next_first_dirty: int
    map_records_read: int | None = None
    map_keys: int | None = None
    records_read: int | None = None
    records_written: int | None = None
    records_invalid: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    aborted: Sequence[Mapping[str, int]] = ()  # What the transaction indexes hold after it.
    # By the wall clock, and as Kafka's own report has it: the round, and the indexing in it.
    times_s: Mapping[str, float] | None = None


@attrs.frozen(kw_only=True)
class CleanedCase:
    """Rounds over one log. `states[n]` is a folder with its segments after `n` rounds."""

    rounds: Sequence[RoundReport]
    states: Sequence[Path]


@attrs.frozen
class KafkaCleaner:
    """Needs a JDK, to run a source file; Kafka's image has none."""

    runtime: LocalRuntime

    @classmethod
    def install(cls) -> "KafkaCleaner":
        """Raises KafkaUnavailable."""
        if shutil.which("javac") is None:
            raise KafkaUnavailable("no JDK (javac)")
        return cls(LocalRuntime.install())

    def clean(self, cases: Sequence[Case], work_folder: Path) -> dict[str, CleanedCase]:
        """Writes and cleans the logs, all in one JVM; by the name of the case.

        What is left is below `work_folder`, which is made.
        """
        asked = []
        for case in cases:
            folder = work_folder / case.name / f"{TOPIC}-0"
            case.write(folder)
            rounds = [
                {name: value for name, value in attrs.asdict(each).items() if value is not None}
                for each in case.rounds
            ]
            kept = {"kept": str(work_folder / case.name), "rounds": rounds}
            asked.append(_asked(folder, case.settings, case.log_start_offset) | kept)
        answers = self._ask("clean", asked, work_folder)
        cleaned = {}
        for case, answer in zip(cases, answers, strict=True):
            assert "error" not in answer, f"{case.name}: {answer['error']}"
            rounds_done = [RoundReport(**each) for each in answer["rounds"]]
            states = [work_folder / case.name / str(done) for done in range(len(rounds_done) + 1)]
            cleaned[case.name] = CleanedCase(rounds=rounds_done, states=states)
        return cleaned

    def time_rounds(
        self, folders: Sequence[Path], settings: CleanerSettings, work_folder: Path
    ) -> list[RoundReport]:
        """Cleans each of these folders once, one after the other in one JVM, by the wall clock."""
        now_ms = time.time_ns() // 1_000_000
        asked = [
            _asked(folder, settings) | {"rounds": [{"now_ms": now_ms}], "is_timed": True}
            for folder in folders
        ]
        answers = self._ask("clean", asked, work_folder)
        for folder, answer in zip(folders, answers, strict=True):
            assert "error" not in answer, f"{folder.name}: {answer['error']}"
        return [RoundReport(**answer["rounds"][0]) for answer in answers]

    def accept(
        self,
        partition_folders: Mapping[str, Path],
        settings: Mapping[str, CleanerSettings],
        now_ms: int,
        work_folder: Path,
    ) -> dict[str, dict[str, Any]]:
        """Opens folders that were closed clean, as a broker does; what it says, by name.

        `complaints` are of indexes that do not lead to their batches; `error` ended it all.
        """
        work_folder.mkdir()
        asked = [
            _asked(folder, settings[name]) | {"now_ms": now_ms}
            for name, folder in partition_folders.items()
        ]
        answers = self._ask("accept", asked, work_folder)
        return dict(zip(partition_folders, answers, strict=True))

    def _ask(self, verb: str, asked: Iterable[Any], work_folder: Path) -> list[dict[str, Any]]:
        question, answer = work_folder / "asked.json", work_folder / "answered.json"
        question.write_text(json.dumps(list(asked)))
        self.runtime.run(str(HARNESS), [verb, str(question), str(answer)], work_folder)
        answers: list[dict[str, Any]] = json.loads(answer.read_text())
        return answers


def _asked(folder: Path, settings: CleanerSettings, log_start_offset: int = 0) -> dict[str, Any]:
    topic = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": settings.segment_bytes,
        "segment.index.bytes": settings.segment_index_bytes,
        "index.interval.bytes": settings.index_interval_bytes,
        "delete.retention.ms": settings.delete_retention_ms,
        "min.compaction.lag.ms": settings.min_compaction_lag_ms,
        "max.message.bytes": settings.message_bytes_max,
        "file.delete.delay.ms": 3_600_000,  # Nothing goes while the harness looks.
    }
    return {
        "folder": str(folder),
        "config": topic,
        "map_slots": settings.map_slots,
        "map_load_factor": settings.map_load_factor,
        "io_buffer_bytes": settings.io_buffer_bytes,
        "producer_expiration_ms": settings.producer_expiration_ms,
        "log_start_offset": log_start_offset,
    }

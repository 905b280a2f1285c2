"""Small logs of which our cleaner leaves something else than Kafka's, by a rule."""

from compaction.logs import (
    ABORT,
    COMMIT,
    START_MS,
    Case,
    CleanerSettings,
    LogWriter,
    Producer,
    Round,
)


def aborted_below_the_start() -> Case:
    """Data of a transaction that was aborted, its marker, and then the log's start."""
    log, producer = LogWriter(), Producer(id=7)
    log.put((b"a", b"1"), producer=producer, is_transactional=True)
    log.mark(producer, ABORT)
    start = log.offset_next
    log.put((b"b", b"1"))
    return _finished(log, log_start_offset=start)


def expired_before_its_marker(*, in_its_segment: bool) -> Case:
    """Data that is superseded, and a marker; in the round the one is older than the expiration."""
    log, producer = LogWriter(), Producer(id=7)
    log.put((b"a", b"1"), producer=producer)
    log.put((b"a", b"2"))
    if not in_its_segment:
        log.roll()
    log.now_ms += 900
    log.mark(producer, COMMIT)
    log.put((b"b", b"1"))
    return _finished(log, name=f"expired {in_its_segment}")


def _finished(log: LogWriter, *, name: str = "example", log_start_offset: int = 0) -> Case:
    log.roll()
    log.put((b"active", b"1"))
    return Case(
        name=name,
        segments=log.segments,
        settings=CleanerSettings(delete_retention_ms=0, producer_expiration_ms=1000),
        rounds=[Round(now_ms=START_MS + 1500)],
        log_start_offset=log_start_offset,
    )

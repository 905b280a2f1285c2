"""The options of `df.write.format("offsetd")` and of `writeStream`."""

from __future__ import annotations

import re
import uuid
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_clients import RetryPolicy

from offsetd_pipeline.read_options import check_any, word
from offsetd_pipeline.server_options import SERVER_OPTIONS, ServerOptions, flag
from offsetd_pipeline.writing.columns import WriteMode

if TYPE_CHECKING:
    from collections.abc import Mapping

RETRY_TIMEOUT_S: Final = 30.0
_NAMES: Final = SERVER_OPTIONS | {
    "write_mode",
    "on_error",
    "rejects",
    "job_id",
    "keep_commit_times",
    "latest_by",
    "retry_timeout_s",
}
OUTCOME_FILE: Final = "outcome_file"
"""An internal option between `write_offsets` and the driver's process that commits."""
_SPARKS: Final = frozenset(("path", "checkpointlocation", "queryname"))
"""Spark's own options, which it passes on."""
_JOB_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


class OnError(StrEnum):
    """The action for rows that are not written."""

    FAIL = "fail"
    COLLECT = "collect"


@attrs.frozen(kw_only=True)
class WriteOptions:
    """The server to write to, and how. `job_id` names a batch. If it is None, the name is random.

    `latest_by`: the column that identifies the latest of several rows of a partition. If it is
    None, such rows are rejected.
    """

    server: ServerOptions
    write_mode: WriteMode = WriteMode.OVERWRITE
    on_error: OnError = OnError.FAIL
    rejects: str | None = None
    job_id: str | None = None
    keep_commit_times: bool = False
    latest_by: str | None = None
    retry_timeout_s: float = RETRY_TIMEOUT_S
    outcome_file: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteOptions:
        """Reads a writer's options. Raises ValueError, which names valid options."""
        given = {name.lower(): value for name, value in options.items()}
        check_any(given)
        unknown = given.keys() - _NAMES - _SPARKS - {OUTCOME_FILE}
        if unknown:
            raise ValueError(f"no option {min(unknown)!r}: there are {', '.join(sorted(_NAMES))}")
        if given.get("path"):
            raise ValueError("offsets are written to a server (option server), not to a folder")
        found = cls(
            server=ServerOptions.of(given),
            write_mode=word(WriteMode, "write_mode", given.get("write_mode", "overwrite")),
            on_error=word(OnError, "on_error", given.get("on_error", "fail")),
            rejects=given.get("rejects") or None,
            job_id=given.get("job_id") or None,
            keep_commit_times=flag("keep_commit_times", given.get("keep_commit_times", "false")),
            latest_by=given.get("latest_by") or None,
            retry_timeout_s=_seconds("retry_timeout_s", given.get("retry_timeout_s")),
            outcome_file=given.get(OUTCOME_FILE),
        )
        if found.on_error is OnError.COLLECT and found.rejects is None:
            raise ValueError("on_error=collect needs rejects, a folder for what is not written")
        if found.job_id is not None and not _JOB_ID.fullmatch(found.job_id):
            raise ValueError(
                f"job_id is up to 200 letters, digits, dots, dashes, underscores,"
                f" not {found.job_id!r}"
            )
        return found

    @property
    def retry(self) -> RetryPolicy:
        """The retry policy of commits."""
        return RetryPolicy(timeout_s=self.retry_timeout_s)

    def named(self) -> str:
        """The batch's name: the given one, or a new one."""
        return self.job_id or str(uuid.uuid4())


def _seconds(name: str, text: str | None) -> float:
    try:
        return RetryPolicy(timeout_s=RETRY_TIMEOUT_S if text is None else float(text)).timeout_s
    except ValueError:
        raise ValueError(f"{name} is seconds, above 0 and at most a day, not {text!r}") from None

"""The command line of the jobs: their names and modules."""

from typing import Final

from offsetd_clients.cli.application import Program, run

JOBS: Final = Program(
    name="python -m offsetd_pipeline",
    summary="Jobs over many offsets, on Spark: archive, restore, compare, migrate, audit.",
    examples="""
        python -m offsetd_pipeline audit offsetd-data --report audit
        python -m offsetd_pipeline compare offsetd-data 127.0.0.1:7171
        python -m offsetd_pipeline archive offsetd-data --to archive
        python -m offsetd_pipeline migrate offsets.csv --to HOST:7171 --state migration
        """,
    commands={
        "archive": "offsetd_pipeline.jobs.archive:register",
        "restore": "offsetd_pipeline.jobs.restore:register",
        "compare": "offsetd_pipeline.jobs.compare:register",
        "migrate": "offsetd_pipeline.jobs.migrate:register",
        "audit": "offsetd_pipeline.jobs.audit:register",
        "checkpoint": "offsetd_pipeline.jobs.checkpoint:register",
    },
    extra="spark",
)


def run_jobs() -> int:
    """Runs the job that `sys.argv` names; returns the exit code."""
    return run(program=JOBS)

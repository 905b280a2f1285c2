"""`python -m offsetd_pipeline JOB`.

Exit codes: 0 success, 1 failure, 2 wrong use, 3 partial success.
"""

import sys


def main() -> None:
    """Runs the job in `sys.argv` and exits. For a missing extra, it prints one line."""
    try:
        from offsetd_pipeline.jobs.application import run_jobs  # noqa: PLC0415  it may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("offsetd"):
            raise
        from offsetd_clients.installation import install_command  # noqa: PLC0415  rarely needed

        sys.stderr.write(f"error: {error.name} is not installed: {install_command('spark')}\n")
        sys.exit(1)
    sys.exit(run_jobs())


if __name__ == "__main__":
    main()

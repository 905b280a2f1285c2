"""Planted bugs of comparisons and bulk migrations."""

from __future__ import annotations

from mutants.planted import Mutant

_PIPELINE = "pipeline/offsetd_pipeline"
_WORK = "tests/unit/pipeline/migration/test_unit_work.py"
_FILES = "tests/unit/pipeline/offset_sources/test_files_table.py"
_NAMING = "tests/unit/pipeline/offset_sources/test_naming.py"
_ORACLE = "tests/spark/test_comparison.py::test_a_comparison_is_what_a_few_lines_of_python_say"

BULK_MIGRATION_MUTANTS = (
    Mutant(
        name="a bulk write expects what stands there now, not what the plan saw",
        file=f"{_PIPELINE}/migration/plan_rows.py",
        replace='                    expected_revision=each["expected_revision"],\n',
        by="                    expected_revision=None,\n",
        caught_by=_WORK,
    ),
    Mutant(
        name="what was written since the plan counts as ours",
        file=f"{_PIPELINE}/migration/unit_work.py",
        replace="        other = [one for one in compared if one.state is not State.EQUAL]\n",
        by="        other = [one for one in compared if one.state is State.BEHIND]\n",
        caught_by=_WORK,
    ),
    Mutant(
        name="a server that is gone is every group's own matter",
        file=f"{_PIPELINE}/migration/unit_work.py",
        replace="            if not is_groups_own(error):\n                raise error\n",
        by="",
        caught_by=_WORK,
    ),
    Mutant(
        name="a group with a line that cannot be read is moved without it",
        file=f"{_PIPELINE}/migration/plan_rows.py",
        replace="        problems=(*problems, *doubles),\n",
        by="        problems=doubles,\n",
        caught_by=_WORK,
    ),
    Mutant(
        name="a line across the end of a range is read by nobody",
        file=f"{_PIPELINE}/offset_sources/files_table.py",
        replace="    at, size = start - 1, file.size()\n",
        by="    at, size = start, file.size()\n",
        caught_by=_FILES,
    ),
    Mutant(
        name="a run that was killed early has begun nothing",
        file=f"{_PIPELINE}/migration/migrating.py",
        replace="            self.folder.begin()\n",
        by="            pass\n",
        caught_by="tests/spark/test_bulk_migration.py"
        "::test_a_job_that_is_killed_goes_on_when_it_is_run_again",
    ),
    Mutant(
        name="lines are numbered from where a task began",
        file=f"{_PIPELINE}/offset_sources/files_table.py",
        replace="{lines_before + number}",
        by="{number}",
        caught_by=_FILES,
    ),
    Mutant(
        name="a path that may be a server is taken for a path",
        file=f"{_PIPELINE}/offset_sources/naming.py",
        replace="    if is_address:\n        raise BadSource(",
        by="    if is_address and False:\n        raise BadSource(",
        caught_by=_NAMING,
    ),
    Mutant(
        name="offsets within the tolerance differ in their metadata",
        file=f"{_PIPELINE}/comparison/differences.py",
        replace="        (between != 0, None),\n",
        by="",
        caught_by=_ORACLE,
    ),
)

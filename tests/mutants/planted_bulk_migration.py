"""Planted bugs of comparisons and bulk migrations."""

from __future__ import annotations

from mutants.planted import Mutant

_WORK = "tests/unit/pipeline/migration/test_plan_tasks.py"
_FILES = "tests/unit/pipeline/offset_sources/test_files_table.py"
_NAMING = "tests/unit/pipeline/offset_sources/test_source_names.py"
_ORACLE = "tests/spark/test_comparison.py::test_a_comparison_is_what_a_few_lines_of_python_say"

BULK_MIGRATION_MUTANTS = (
    Mutant(
        name="a bulk write expects what stands there now, not what the plan saw",
        where="offsetd_pipeline.migration.plan_rows:planned_groups",
        replace='expected_revision=each["expected_revision"]',
        by="expected_revision=None",
        caught_by=_WORK,
    ),
    Mutant(
        name="what was written since the plan counts as ours",
        where="offsetd_pipeline.migration.plan_tasks:_standing",
        replace="other = [one for one in compared if one.state is not State.EQUAL]",
        by="other = [one for one in compared if one.state is State.BEHIND]",
        caught_by=_WORK,
    ),
    Mutant(
        name="a server that is gone is every group's own matter",
        where="offsetd_pipeline.migration.plan_tasks:_run_chunk",
        replace="if not is_groups_own(error):\n    raise error",
        by="",
        caught_by=_WORK,
    ),
    Mutant(
        name="a group with a line that cannot be read is moved without it",
        where="offsetd_pipeline.migration.plan_rows:_planned",
        replace="problems=(*problems, *doubles)",
        by="problems=doubles",
        caught_by=_WORK,
    ),
    Mutant(
        name="a line across the end of a range is read by nobody",
        where="offsetd_pipeline.offset_sources.files_table:first_line_at",
        replace="at, size = start - 1, file.size()",
        by="at, size = start, file.size()",
        caught_by=_FILES,
    ),
    Mutant(
        name="a run that was killed early has begun nothing",
        where="offsetd_pipeline.migration.migrating:Migration.run",
        replace="self.folder.begin()",
        by="pass",
        caught_by="tests/spark/test_bulk_migration.py"
        "::test_a_job_that_is_killed_goes_on_when_it_is_run_again",
    ),
    Mutant(
        name="lines are numbered from where a task began",
        where="offsetd_pipeline.offset_sources.files_table:_Reader._rows",
        replace='f"{of.path}:{lines_before + number}"',
        by='f"{of.path}:{number}"',
        caught_by=_FILES,
    ),
    Mutant(
        name="a path that may be a server is taken for a path",
        where="offsetd_pipeline.offset_sources.source_names:kind_of_place",
        replace="if is_address:\n    raise BadSource(",
        by="if is_address and False:\n    raise BadSource(",
        caught_by=_NAMING,
    ),
    Mutant(
        name="offsets within the tolerance differ in their metadata",
        where="offsetd_pipeline.comparison.differences:differing",
        replace="(between != 0, None),",
        by="",
        caught_by=_ORACLE,
    ),
)

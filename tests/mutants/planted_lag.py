"""Planted bugs of the lag of groups: samples, verdicts, surveys and metrics."""

from __future__ import annotations

from mutants.planted import Mutant

_VERDICTS = "offsetd_coordinator.kernels.table.lag_verdicts"
_WINDOWS = "offsetd_coordinator.kernels.table.lag_windows"
_ENTRIES = "offsetd_coordinator.kernels.table.entries"
_SURVEY = "offsetd_coordinator.background.lag_survey"
_METRICS = "offsetd_coordinator.observability.metrics.lag_metrics"
_TESTS = "tests/unit/coordinator/kernels/test_lag_verdicts.py"
_SURVEY_TESTS = "tests/unit/coordinator/background/test_lag_survey.py"
_GROUP_CALLS = "tests/unit/coordinator/services/test_group_calls.py"
_CALL_TESTS = "tests/unit/coordinator/services/test_group_lag.py"
_BURROW = f"{_TESTS}::test_a_full_window_is_judged_as_burrow_says"
_OFTEN = (
    f"{_TESTS}::test_a_consumer_that_commits_often_is_judged_by_the_same_time_as_one_that_commits"
    "_rarely"
)

LAG_MUTANTS = (
    Mutant(
        name="a consumer has stopped once it is silent for as long as its window",
        where=f"{_VERDICTS}:_verdict",
        replace="> span_ms:",
        by=">= span_ms:",
        caught_by=_BURROW,
    ),
    Mutant(
        name="a rewind is looked for only if there always was lag",
        where=f"{_VERDICTS}:_verdict",
        replace="if _is_rewound(samples, count):\n    return LAG_REWIND",
        by="",
        caught_by=f"{_TESTS}::test_each_rule_by_cases",
    ),
    Mutant(
        name="a rewound consumer has come back once its offset rises",
        where=f"{_VERDICTS}:_is_rewound",
        replace="samples[at, SAMPLE_OFFSET] >= before:",
        by="samples[at, SAMPLE_OFFSET] >= before - 1:",
        caught_by=_BURROW,
    ),
    Mutant(
        name="a lag that stays has fallen",
        where=f"{_VERDICTS}:_verdict",
        replace="samples[at, SAMPLE_LAG] < samples[at - 1, SAMPLE_LAG]",
        by="samples[at, SAMPLE_LAG] <= samples[at - 1, SAMPLE_LAG]",
        caught_by=f"{_TESTS}::test_each_rule_by_cases",
    ),
    Mutant(
        name="two samples are enough for any verdict",
        where=f"{_VERDICTS}:_judge_row",
        replace="count == SAMPLES_MAX",
        by="count > 1",
        caught_by=f"{_TESTS}::test_a_consumer_that_stands_still_stalls_once_the_window_is_full",
    ),
    Mutant(
        name="a short window counts as what it spans",
        where=f"{_VERDICTS}:_verdict",
        replace="span_ms = max(span_ms, window_ms)",
        by="pass",
        caught_by=f"{_TESTS}::test_a_window_that_is_not_full_says_only_that_a_consumer_stopped",
    ),
    Mutant(
        name="the last commit counts only if it reports an end",
        where=f"{_VERDICTS}:_judge_row",
        replace="samples[count, SAMPLE_TIME_MS] = extra[COMMIT_TIMESTAMP]",
        by="samples[count, SAMPLE_TIME_MS] = samples[count - 1, SAMPLE_TIME_MS]",
        caught_by=f"{_TESTS}::test_a_commit_that_reports_no_end_still_says_that_the_consumer_lives",
    ),
    Mutant(
        name="each commit is a sample",
        where=f"{_WINDOWS}:note_sample",
        replace="count -= 1",
        by="pass",
        caught_by=_OFTEN,
    ),
    Mutant(
        name="a sample that is replaced gets the time of the new one",
        where=f"{_WINDOWS}:note_sample",
        replace="time_s = newest_s",
        by="pass",
        caught_by=_OFTEN,
    ),
    Mutant(
        name="the window of an offset that is removed is lost",
        where=f"{_ENTRIES}:_free_extra",
        replace="if window >= 0:",
        by="if False:",
        caught_by=f"{_TESTS}::test_windows_are_freed_with_their_offsets_and_begin_anew",
    ),
    Mutant(
        name="a commit beyond the known end forgets the samples",
        where=f"{_ENTRIES}:store_row",
        replace="== 0 and extras[extra, LAG_WINDOW] == 0:",
        by="== 0:",
        caught_by=f"{_TESTS}::test_a_rewound_consumer_is_told_until_it_has_come_back",
    ),
    Mutant(
        name="a used window keeps the samples of another offset",
        where=f"{_ENTRIES}:note_end_offset",
        replace="table.windows[window, SAMPLE_COUNT] = 0",
        by="pass",
        caught_by=f"{_TESTS}::test_windows_are_freed_with_their_offsets_and_begin_anew",
    ),
    Mutant(
        name="a large group is judged by its last slice",
        where="offsetd_coordinator.large_groups.lag_reading:lag_of",
        replace="whole = whole.joined(judge.group_lag(offsets, entries))",
        by="whole = judge.group_lag(offsets, entries)",
        caught_by=f"{_CALL_TESTS}::test_the_verdict_on_a_group_is_that_of_its_worst_partition",
    ),
    Mutant(
        name="the lag of a group is larger than a number of the contract",
        where="offsetd_coordinator.state.lag_judge:_summed",
        replace="min(sum(lags), _LAG_MAX)",
        by="sum(lags)",
        caught_by=f"{_CALL_TESTS}::test_the_lag_of_a_group_is_summed_as_far_as_a_number_goes",
    ),
    Mutant(
        name="an unknown lag is summed",
        where="offsetd_coordinator.state.lag_judge:LagJudge.group_lag",
        replace="if each >= 0",
        by="",
        caught_by=f"{_CALL_TESTS}::test_the_lag_of_a_group_is_summed_as_far_as_a_number_goes",
    ),
    Mutant(
        name="a list does not wait for what its later turns read",
        where="offsetd_coordinator.services.group_calls:GroupService.list_groups",
        replace="tickets.update(runtime.ticket_in(partition) for partition, _ in shown)",
        by="pass",
        caught_by=f"{_GROUP_CALLS}::test_what_a_later_turn_reads_waits_for_its_own_flush",
    ),
    Mutant(
        name="a group's description does not wait for what its later turns read",
        where="offsetd_coordinator.services.group_calls:GroupService.get_group",
        replace="ticket = runtime.ticket_in(runtime.partition_of(group_id))",
        by="pass",
        caught_by=f"{_GROUP_CALLS}::test_what_a_later_turn_reads_waits_for_its_own_flush",
    ),
    Mutant(
        name="a group that does not fit is shown in part",
        where=f"{_SURVEY}:LagSurvey._shown",
        replace="0 < count <= partitions_max",
        by="0 < count and partitions_max > 0",
        caught_by=f"{_SURVEY_TESTS}::test_the_first_groups_that_fit_are_shown_whole_and_the_others"
        "_are_counted",
    ),
    Mutant(
        name="the groups that are shown are any",
        where=f"{_SURVEY}:LagSurvey._shown",
        replace="least = heapq.nsmallest(partitions_max, least)",
        by="least = heapq.nlargest(partitions_max, least)",
        caught_by=f"{_SURVEY_TESTS}::test_many_groups_are_shown_in_the_order_of_their_ids",
    ),
    Mutant(
        name="an unknown lag is a series",
        where=f"{_METRICS}:_lags",
        replace="if each.lag >= 0:",
        by="if True:",
        caught_by=f"{_SURVEY_TESTS}::test_lag_offsets_and_verdicts_have_series_of_our_names",
    ),
    Mutant(
        name="the names of kafka_exporter are always there",
        where=f"{_METRICS}:lag_families",
        replace='if report.compatibility == "kafka_exporter":',
        by="if True:",
        caught_by=f"{_SURVEY_TESTS}::test_lag_offsets_and_verdicts_have_series_of_our_names",
    ),
    Mutant(
        name="a list has verdicts only if it is filtered by them",
        where="offsetd_coordinator.services.group_calls:GroupService.list_groups",
        replace="if request.include_lag_verdicts:",
        by="if request.lag_verdicts:",
        caught_by="tests/unit/coordinator/services/test_group_lag.py",
    ),
    Mutant(
        name="a list by verdict finds nothing where no verdicts are given",
        where="offsetd_coordinator.services.group_calls:_check_verdicts",
        replace="if request.lag_verdicts and not",
        by="if not request.lag_verdicts and not",
        caught_by="tests/unit/coordinator/services/test_group_lag.py",
    ),
)

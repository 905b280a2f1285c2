"""Planted bugs of traces."""

from __future__ import annotations

from mutants.planted import Mutant

_SERVER = "offsetd_coordinator.grpc.call_tracing"
_CLIENT = "offsetd_clients.calling.tracing:Tracing"
_TESTS = "tests/fault/test_tracing.py"

TRACING_MUTANTS = (
    Mutant(
        name="the server begins a trace of its own for a caller that traces",
        where=f"{_SERVER}:CallTracing.begin",
        replace="if traceparent:",
        by="if False:",
        caught_by=_TESTS,
    ),
    Mutant(
        name="the server samples what its caller does not",
        where=f"{_SERVER}:CallTracing.is_sampled",
        replace="return bool(int(traced[1], 16) & 1)",
        by="return True",
        caught_by=f"{_TESTS}::test_an_unsampled_caller_has_no_spans",
    ),
    Mutant(
        name="a refusal has the outcome OK",
        where=f"{_SERVER}:_note_outcome",
        replace="_reason(context) or code.name",
        by='"OK"',
        caught_by=f"{_TESTS}::test_a_refusal_is_the_outcome_on_both_sides",
    ),
    Mutant(
        name="a span of a stream's message does not end",
        where="offsetd_coordinator.grpc.commit_stream:_Taken.let_go",
        replace="self.on_end()",
        by="pass",
        caught_by=_TESTS,
    ),
    Mutant(
        name="the client does not tell the server its span",
        where=f"{_CLIENT}._carrier",
        replace="span.get_span_context().trace_flags.sampled",
        by="False",
        caught_by=_TESTS,
    ),
    Mutant(
        name="log lines have no trace",
        where="offsetd_coordinator.observability.log_setup:_with_trace_ids",
        replace="if context.is_valid:",
        by="if False:",
        caught_by=f"{_TESTS}::test_lines_of_the_log_have_the_ids_of_their_call",
    ),
)

"""Planted bugs of the quotas of principals and clients."""

from __future__ import annotations

from mutants.planted import Mutant

_TABLE = "offsetd_coordinator.quotas.quota_table"
_CALLER = "offsetd_coordinator.quotas.caller_quotas:CallerQuotas"
_UNIT = "tests/unit/coordinator/quotas/test_caller_quotas.py"
_USE = "offsetd_coordinator.quotas.quota_use"
_SHOWN = "tests/unit/coordinator/quotas/test_quota_use.py"
_SERVER = "tests/security/test_quotas_of_callers.py"

QUOTA_MUTANTS = (
    Mutant(
        name="quotas of callers that no table names are not shown",
        where=f"{_USE}:limits_in_force",
        replace="turns.each(quotas.callers())",
        by="turns.each([])",
        caught_by=_SHOWN,
    ),
    Mutant(
        name="what is shown of a rate is what was ever taken",
        where="offsetd_coordinator.quotas.token_buckets:TokenBuckets.taken",
        replace="self._full_at_ns.get(key, 0) - now_ns",
        by="self._full_at_ns.get(key, 0)",
        caught_by=_SHOWN,
    ),
    Mutant(
        name="quotas of others are shown to who asks for a principal",
        where=f"{_USE}:limits_in_force",
        replace='if principal in ("", limit.sharers.principal):',
        by="if True:",
        caught_by=_SHOWN,
    ),
    Mutant(
        name="a page of quotas begins with the last one of the page before",
        where="offsetd_coordinator.services.server_admin:AdminService.describe_quotas",
        replace="key > after",
        by="key >= after",
        caught_by="tests/security/test_quotas_described.py",
    ),
    Mutant(
        name="the default of principals counts before the principal's own quota",
        where=f"{_TABLE}:_entities",
        replace='principals = (principal, DEFAULT, "")',
        by='principals = (DEFAULT, principal, "")',
        caught_by=_UNIT,
    ),
    Mutant(
        name="a client without a name escapes the default of client ids",
        where=f"{_TABLE}:_entities",
        replace='if client_id else (DEFAULT, "")',
        by='if client_id else ("",)',
        caught_by=_UNIT,
    ),
    Mutant(
        name="all principals share the limit of the default",
        where=f"{_TABLE}:QuotaTable.limits_of",
        replace="entity.principal and principal",
        by="entity.principal",
        caught_by=_UNIT,
    ),
    Mutant(
        name="no limit is a limit",
        where=f"{_TABLE}:QuotaTable.limits_of",
        replace="if limit.most != UNLIMITED",
        by="",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a refused call pays",
        where=f"{_CALLER}.take",
        replace="now_ns = self._quotas.now_ns()",
        by="now_ns = self._quotas.now_ns(); self.spend(costs)",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a changed file does not count for a caller that is known",
        where=f"{_CALLER}._limits",
        replace="self._table is not self._quotas.table",
        by="self._table is None",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a bucket holds ten seconds",
        where=f"{_CALLER}._wait_ns",
        replace="depth=limit.most",
        by="depth=10 * limit.most",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a stream that has ended counts for ever",
        where=f"{_CALLER}.one_of",
        replace="in_use[key] -= 1",
        by="pass",
        caught_by=_UNIT,
    ),
    Mutant(
        name="a lease that has ended counts for ever",
        where=f"{_CALLER}.check_lease",
        replace="if not is_held(group, epoch):",
        by="if False:",
        caught_by=_UNIT,
    ),
    Mutant(
        name="no refusal is held",
        where=f"{_CALLER}.hold_seconds",
        replace="return min(wait_ns / _SECOND_NS, _HOLD_SECONDS_MAX)",
        by="return 0.0",
        caught_by=_UNIT,
    ),
    Mutant(
        name="metrics name any number of principals",
        where="offsetd_coordinator.counters:QuotaCounters._label",
        replace="len(known) >= self._principals_max",
        by="False",
        caught_by=_UNIT,
    ),
    Mutant(
        name="connections are not counted",
        where=f"{_CALLER}.begin_call",
        replace="self.note_connection(connection)",
        by="pass",
        caught_by=f"{_SERVER}::test_connections_are_counted_until_they_close",
    ),
    Mutant(
        name="closed connections count against the quota for ever",
        where="offsetd_coordinator.quotas.caller_quotas:still_open",
        replace="not each.is_closed",
        by="True",
        caught_by=f"{_UNIT}::test_connections_are_counted_until_they_are_closed",
    ),
    Mutant(
        name="the bytes of answers cost nothing",
        where="offsetd_coordinator.grpc.unary_calls:unary.answered",
        replace="access.quotas.spend({Quota.RESPONSE_BYTE_RATE: len(response)})",
        by="pass",
        caught_by=f"{_SERVER}::test_a_rate_is_refused_above_its_limit",
    ),
    Mutant(
        name="the commits of a stream cost nothing",
        where="offsetd_coordinator.grpc.commit_stream:CommitStream._take",
        replace="quotas.spend({Quota.COMMIT_RATE: commits, Quota.OFFSET_RATE: offsets})",
        by="pass",
        caught_by=f"{_SERVER}::test_a_stream_is_read_more_slowly_and_nothing_is_refused",
    ),
    Mutant(
        name="a call on an idle connection costs nothing",
        where="offsetd_coordinator.messages.method_access:MethodAccess.enter",
        replace="if access.quotas is not None:",
        by="if access.quotas is not None and connection.calls > 1:",
        caught_by=f"{_SERVER}::test_every_method_counts_as_a_call",
    ),
    Mutant(
        name="a new stream escapes the debt of an older one",
        where="offsetd_coordinator.grpc.commit_stream:CommitStream._take",
        replace="await quotas.until_paid(_PAID_BY_MESSAGE)\n"
        "quotas.spend({Quota.REQUEST_BYTE_RATE: len(message)})",
        by="pass",
        caught_by=f"{_SERVER}::test_a_new_stream_does_not_escape_the_debt_of_an_older_one",
    ),
    Mutant(
        name="a refusal is held beyond the deadline",
        where="offsetd_coordinator.calls.call_life:CallLife.hold",
        replace="min(refusal.hold_seconds, most)",
        by="refusal.hold_seconds",
        caught_by=f"{_SERVER}::test_a_refusal_leaves_before_the_deadline",
    ),
    Mutant(
        name="a pipe in the place of a file counts as an empty file",
        where="offsetd_coordinator.security.watched_file:_read",
        replace="not stat.S_ISREG(status.st_mode)",
        by="False",
        caught_by="tests/unit/coordinator/security/test_watched_file.py",
    ),
)

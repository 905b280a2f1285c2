"""Planted bugs of unary calls that are answered turn by turn, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_COMMIT_TESTS = "tests/unit/coordinator/grpc/test_joined_commits.py"
_FETCH_TESTS = "tests/unit/coordinator/grpc/test_joined_fetches.py"
_CALLS = "offsetd_coordinator.grpc.joined_calls:JoinedCalls"
_COMMITS = "offsetd_coordinator.grpc.joined_commits:JoinedCommits"
_FETCHES = "offsetd_coordinator.grpc.joined_fetches:JoinedFetches"

_OF_ALL = (
    Mutant(
        name="fetches are not joined",
        where="offsetd_coordinator.grpc.handlers:_offset_methods",
        replace="fetch_handler.join = fetches.take",
        by="",
        caught_by="tests/unit/coordinator/grpc/test_joined_methods.py",
    ),
    Mutant(
        name="joined commits are answered before they are durable",
        where=f"{_CALLS}.end_once_durable",
        replace="if waiting is None:",
        by="if True:",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="a lost partition refuses all commits that were joined with its own",
        where=f"{_CALLS}.end_once_durable",
        replace="by_ticket.setdefault(max(each.tickets, default=0), [])",
        by="by_ticket.setdefault(max(max(one.tickets, default=0) for one in outcomes), [])",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="a joined fetch is answered though an older of its partitions is lost",
        where=f"{_CALLS}._end_all",
        replace="lost = refusal or (log.lost(each.tickets) if log.losses else None)",
        by="lost = refusal",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="a joined fetch of two groups waits for the older one only",
        where=f"{_CALLS}.end_once_durable",
        replace="max(each.tickets, default=0)",
        by="min(each.tickets, default=0)",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="a large joined answer does not count as unread",
        where=f"{_CALLS}.end",
        replace="room.send(len(ended_with))",
        by="pass",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="a large joined answer counts for ever",
        where=f"{_CALLS}.end",
        replace="call.add_done_callback(room.note_done)",
        by="pass",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="the answer to a joined call that has ended counts for ever",
        where=f"{_CALLS}.end",
        replace="room.end()",
        by="pass",
        caught_by=_FETCH_TESTS,
    ),
)
_OF_FETCHES = (
    Mutant(
        name="joined fetches need no rights",
        where=f"{_FETCHES}._read",
        replace="if access is not None and",
        by="if False and",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="joined fetches show topics that their callers may not see",
        where="offsetd_coordinator.messages.method_access:MethodAccess.enter_now",
        replace=" or self._hidden(access)",
        by="",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="joined fetches take offsets of a change that is partly written",
        where="offsetd_coordinator.shard.shard:Shard.fetch_into",
        replace="self.holds.check_reader(group_id)",
        by="",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="a refused joined fetch gets an empty answer",
        where=f"{_FETCHES}._read",
        replace="if refusal is not None:",
        by="if False:",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="a fetch that is left counts for ever",
        where=f"{_FETCHES}._outcome",
        replace="self._calls.leave(taken)",
        by="pass",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="joined answers that wait for a flush do not count",
        where="offsetd_coordinator.calls.answer_reservations:built",
        replace="answer.build(size)",
        by="pass",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="large fetches are joined",
        where=f"{_FETCHES}._read",
        replace="offsets_max=_OFFSETS_PER_GROUP_MAX",
        by="offsets_max=4096",
        caught_by=_FETCH_TESTS,
    ),
)
_OF_COMMITS = (
    Mutant(
        name="a refused commit moves the outcomes of those behind it",
        where=f"{_COMMITS}._outcomes",
        replace="run.refusals.get(place)",
        by="run.refusals.get(place - 1)",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="joined commits need no rights",
        where=f"{_COMMITS}._outcomes",
        replace="_refused(accesses, read) if accesses else {}",
        by="{}",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="a commit that comes alone needs no rights",
        where=f"{_COMMITS}._outcome",
        replace="None if taken.access is None else partial(_admit, taken.access)",
        by="None",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="a call that is left counts for ever",
        where=f"{_CALLS}.leave",
        replace="taken.life.leave()",
        by="",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="a refusal that rests on nothing waits for the commits that it came with",
        where=f"{_COMMITS}._outcomes",
        replace="() if place in run.at_once else (tickets[log_partition],)",
        by="(tickets[log_partition],)",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="joined commits do not wait for a large change of their group",
        where=f"{_COMMITS}._end_or_leave",
        replace="isinstance(each.ended_with, InvalidField | CoordinatorLoadInProgress)",
        by="isinstance(each.ended_with, InvalidField)",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="a defect leaves joined calls without an answer",
        where=f"{_COMMITS}._submit",
        replace="self._calls.end(Outcome(each, refusal))",
        by="pass",
        caught_by=_COMMIT_TESTS,
    ),
)
_OF_QUOTAS = (
    Mutant(
        name="joined calls pay nothing when they begin",
        where=f"{_CALLS}.taken",
        replace="not quotas.begin_call_now(life.connection, size)",
        by="False",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="a joined call that is left has paid",
        where=f"{_CALLS}.leave",
        replace="taken.access.quotas.undo_begin(len(taken.message))",
        by="pass",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="joined answers are free",
        where=f"{_CALLS}.end",
        replace="taken.access.quotas.spend({Quota.RESPONSE_BYTE_RATE: len(ended_with)})",
        by="pass",
        caught_by=_FETCH_TESTS,
    ),
    Mutant(
        name="joined calls come on connections that are not counted",
        where="offsetd_coordinator.quotas.caller_quotas:CallerQuotas.begin_call_now",
        replace="connection not in self._quotas.connections_of(limit.sharers)",
        by="False",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="joined commits pay for no offsets",
        where="offsetd_coordinator.grpc.joined_commits:_pay",
        replace="Quota.OFFSET_RATE: offsets",
        by="Quota.OFFSET_RATE: 0",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="a joined commit without a right pays",
        where="offsetd_coordinator.grpc.joined_commits:_refused",
        replace="place not in refused and ",
        by="",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="a commit that comes alone pays nothing",
        where="offsetd_coordinator.grpc.joined_commits:_admit",
        replace="access.quotas is not None",
        by="False",
        caught_by=_COMMIT_TESTS,
    ),
    Mutant(
        name="joined commits are refused without a wait when a quota is used up",
        where="offsetd_coordinator.grpc.joined_commits:_pay",
        replace="not quotas.has_tokens(costs)",
        by="False",
        caught_by=_COMMIT_TESTS,
    ),
)
JOINED_CALL_MUTANTS = (*_OF_ALL, *_OF_FETCHES, *_OF_COMMITS, *_OF_QUOTAS)

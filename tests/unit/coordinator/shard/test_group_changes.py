"""Leases and settings of groups: who is granted what, who may write, and what stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd_coordinator.errors import (
    CoordinatorError,
    EpochFenced,
    GroupIdNotFound,
    InvalidCommitSize,
    InvalidRetention,
    LeaseHeld,
    NonEmptyGroup,
    RecordUndecodable,
)
from offsetd_coordinator.membership.member_requests import JoinGroup, Moment
from offsetd_coordinator.requests import (
    AcquireGroup,
    DeleteGroup,
    DeleteOffsets,
    LeaseReply,
    ReleaseGroup,
    RenewGroup,
    UpdateGroup,
    UpdateGroupReply,
)
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember, GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings
from offsetd_storage.offsets_topic.schemas.keys import GroupSettingsKey, encode_key
from shards import (
    NOW_MS,
    batch_of,
    commit,
    entry,
    group_key,
    listed_groups,
    new_shard,
    offset_key,
    offset_value,
    offsets_of,
    replay,
    state_of,
)

if TYPE_CHECKING:
    from offsetd_coordinator.requests import Decision, Request

TTL_MS = 10_000
SETTINGS_KEY = encode_key(GroupSettingsKey(group="g"))
MEMBER = GroupMember(
    member_id="m",
    group_instance_id=None,
    client_id="c",
    client_host="h",
    rebalance_timeout_ms=1000,
    session_timeout_ms=1000,
    subscription=b"",
    assignment=b"",
)
GROUP_WITH_MEMBER = GroupMetadataValue(
    protocol_type="consumer", generation=1, protocol="range", leader="m", members=(MEMBER,)
)


class Log:
    """A shard with a clock, and its log."""

    def __init__(self, *batches: bytes, **config: Any) -> None:
        self.batches = list(batches)
        self.shard = replay(new_shard(**config), *batches)
        self.monotonic_ms = 0

    def ask(self, request: Request) -> Decision:
        """What is decided, applied and in the log."""
        decision = self.shard.decide(request, NOW_MS + self.monotonic_ms, self.monotonic_ms)
        self.shard.apply(decision)
        if decision.batch is not None:
            self.batches.append(decision.batch)
        self.batches += [batch for batch, _ in decision.batches]
        return decision

    def do(self, request: Request) -> Any:
        """The reply. Raises the refusal."""
        decision = self.ask(request)
        if decision.refusal is not None:
            raise decision.refusal
        return decision.reply

    def acquire(self, holder: str = "a", **more: Any) -> int:
        """The epoch."""
        reply = self.do(AcquireGroup(group_id=b"g", holder=holder, ttl_ms=TTL_MS, **more))
        assert isinstance(reply, LeaseReply)
        assert reply.lease.epoch == reply.last_offset
        return reply.last_offset

    def release(self, epoch: int, **more: Any) -> None:
        """Gives up."""
        self.do(ReleaseGroup(group_id=b"g", epoch=epoch, **more))

    def commit(self, offset: int, **more: Any) -> None:
        """Commits partition 0 of topic t."""
        self.do(commit("g", entry("t", 0, offset), **more))

    def renew(self, epoch: int, ttl_ms: int | None = None) -> LeaseReply:
        """Extends."""
        request = RenewGroup(group_id=b"g", epoch=epoch, ttl_ms=ttl_ms)
        return self.shard.leases.renew(request, self.now)

    @property
    def now(self) -> Moment:
        return Moment(NOW_MS + self.monotonic_ms, self.monotonic_ms)

    def restarted(self, **config: Any) -> Log:
        """The same log, in a server that was started just now."""
        log = Log(*self.batches, **config)
        log.monotonic_ms = 5_000_000
        log.shard.end_load(offset_next=self.shard.offset_next, leader_epoch=0)
        log.shard.restore_members(log.now)
        return log


def unchanged(log: Log, request: Request, refusal: type[CoordinatorError]) -> CoordinatorError:
    """The refusal, by which nothing has changed."""
    before, count = state_of(log.shard), len(log.batches)
    with pytest.raises(refusal) as raised:
        log.do(request)
    assert (state_of(log.shard), len(log.batches)) == (before, count)
    return raised.value


def test_who_holds_the_lease_commits_with_its_epoch_and_nobody_else() -> None:
    log = Log()
    epoch = log.acquire()
    log.commit(5, epoch=epoch)
    held = unchanged(log, commit("g", entry("t", 0, 9)), LeaseHeld)
    assert (held.variables["holder"], held.variables["holder_epoch"]) == ("a", str(epoch))
    assert held.variables["expire_time"] == "2023-11-14T22:13:30.000Z"
    for wrong in (epoch + 1, epoch + 7):
        unchanged(log, commit("g", entry("t", 0, 9), epoch=wrong), EpochFenced)
    assert offsets_of(log.shard, "g") == {("t", 0): 5}


def test_a_held_lease_is_not_granted_to_another_unless_it_is_taken_by_force() -> None:
    log = Log()
    first = log.acquire("a")
    unchanged(log, AcquireGroup(group_id=b"g", holder="b", ttl_ms=TTL_MS), LeaseHeld)
    second = log.acquire("b", force=True)
    assert second > first
    fenced = unchanged(log, commit("g", entry("t", 0, 9), epoch=first), EpochFenced)
    assert (fenced.variables["holder"], fenced.variables["holder_epoch"]) == ("b", str(second))
    log.commit(1, epoch=second)


def test_the_same_holder_gets_a_new_epoch_and_fences_its_former_self() -> None:
    log = Log()
    first, second = log.acquire("a"), log.acquire("a")
    assert second > first
    unchanged(log, commit("g", entry("t", 0, 9), epoch=first), EpochFenced)
    log.commit(1, epoch=second)


def test_an_expired_lease_fences_nobody_until_somebody_acquires() -> None:
    log = Log()
    first = log.acquire("a")
    log.monotonic_ms += TTL_MS - 1
    unchanged(log, AcquireGroup(group_id=b"g", holder="b", ttl_ms=TTL_MS), LeaseHeld)
    log.monotonic_ms += 1
    log.commit(1, epoch=first)
    log.commit(2)
    log.commit(3, epoch=first)
    second = log.acquire("b")
    unchanged(log, commit("g", entry("t", 0, 9), epoch=first), EpochFenced)
    log.commit(4, epoch=second)


def test_a_renewed_lease_runs_on_and_writes_nothing() -> None:
    log = Log()
    epoch = log.acquire("a")
    written = len(log.batches)
    log.monotonic_ms += TTL_MS - 1
    assert log.renew(epoch).expire_ms == NOW_MS + 2 * TTL_MS - 1
    log.monotonic_ms += TTL_MS - 1
    unchanged(log, AcquireGroup(group_id=b"g", holder="b", ttl_ms=TTL_MS), LeaseHeld)
    log.monotonic_ms += 1
    log.renew(epoch, 2 * TTL_MS)  # Late, and nobody came meanwhile.
    log.monotonic_ms += 2 * TTL_MS - 1
    unchanged(log, commit("g", entry("t", 0, 9)), LeaseHeld)
    assert len(log.batches) == written
    log.monotonic_ms += 1
    log.acquire("b")
    with pytest.raises(EpochFenced):
        log.renew(epoch)


def test_a_released_lease_is_over_and_leaves_nothing() -> None:
    log = Log()
    epoch = log.acquire("a")
    log.commit(1, epoch=epoch)
    log.release(epoch)
    released = unchanged(log, commit("g", entry("t", 0, 9), epoch=epoch), EpochFenced)
    assert released.variables["holder"] == released.variables["expire_time"] == ""
    unchanged(log, ReleaseGroup(group_id=b"g", epoch=epoch), EpochFenced)
    with pytest.raises(EpochFenced):
        log.renew(epoch)
    log.commit(2)
    assert log.shard._state.known_group_records(b"g") is None
    log.do(DeleteGroup(group_id=b"g"))
    assert log.acquire("b") > epoch


def test_a_group_of_which_nothing_but_its_lease_was_there_goes_with_it() -> None:
    log = Log()
    epoch = log.acquire("a")
    assert log.shard.get_group(b"g", *log.now).offset_count == 0
    assert [listing.group_id for listing in listed_groups(log.shard)] == [b"g"]
    log.release(epoch)
    with pytest.raises(GroupIdNotFound):
        log.shard.get_group(b"g", *log.now)


def test_a_restart_extends_a_lease_by_its_own_ttl() -> None:
    log = Log()
    epoch = log.acquire("a")
    log.monotonic_ms += TTL_MS - 1
    log.renew(epoch, 100 * TTL_MS)
    restarted = log.restarted()
    status = restarted.shard.leases.status(b"g", restarted.now)
    assert status is not None
    assert status.expire_ms - restarted.now.wall_ms == TTL_MS
    restarted.monotonic_ms += TTL_MS - 1
    unchanged(restarted, AcquireGroup(group_id=b"g", holder="b", ttl_ms=TTL_MS), LeaseHeld)
    restarted.commit(1, epoch=epoch)
    restarted.monotonic_ms += 1
    assert restarted.acquire("b") > epoch


def test_deleting_is_for_who_holds_the_lease() -> None:
    log = Log()
    epoch = log.acquire("a")
    log.commit(1, epoch=epoch)
    delete = DeleteOffsets(group_id=b"g", partitions=((b"t", 0),))
    unchanged(log, delete, LeaseHeld)
    unchanged(log, DeleteGroup(group_id=b"g"), LeaseHeld)
    fenced = DeleteOffsets(group_id=b"g", partitions=((b"t", 0),), epoch=epoch + 1)
    unchanged(log, fenced, EpochFenced)
    log.do(DeleteOffsets(group_id=b"g", partitions=((b"t", 0),), epoch=epoch))
    assert offsets_of(log.shard, "g") == {}
    log.monotonic_ms += TTL_MS
    log.do(DeleteGroup(group_id=b"g"))
    unchanged(log, commit("g", entry("t", 0, 9), epoch=epoch), EpochFenced)
    assert log.acquire("a") > epoch


def test_members_and_leases_exclude_each_other() -> None:
    members = batch_of(0, (group_key("g"), GROUP_WITH_MEMBER.encode()))
    log = Log(members).restarted()
    for force in (False, True):
        request = AcquireGroup(group_id=b"g", holder="a", ttl_ms=TTL_MS, force=force)
        unchanged(log, request, NonEmptyGroup)
    leased = Log()
    leased.acquire()
    joining = JoinGroup(
        group_id=b"g",
        member_id="",
        client_id="c",
        client_host="h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(("range", b""),),
    )
    step = leased.shard.membership.join(joining, 1, leased.now)
    [(token, refusal)] = step.answers
    assert token == 1
    assert isinstance(refusal, LeaseHeld)
    leased.monotonic_ms += TTL_MS
    [(token, refusal)] = leased.shard.membership.join(joining, 2, leased.now).answers
    assert not isinstance(refusal, LeaseHeld)


KINDS: list[tuple[Request, Request]] = [
    (
        AcquireGroup(group_id=b"g", holder="a", ttl_ms=TTL_MS, request_id=b"1"),
        AcquireGroup(group_id=b"g", holder="b", ttl_ms=TTL_MS, request_id=b"1"),
    ),
    (
        ReleaseGroup(group_id=b"g", epoch=0, request_id=b"1"),
        ReleaseGroup(group_id=b"g", epoch=7, request_id=b"1"),
    ),
    (
        UpdateGroup(group_id=b"g", never_expires=True, request_id=b"1"),
        UpdateGroup(group_id=b"g", retention_ms=1, request_id=b"1"),
    ),
]


@pytest.mark.parametrize(("request_", "other"), KINDS)
def test_a_repeated_request_is_answered_and_not_done_again(
    request_: Request, other: Request
) -> None:
    log = Log()
    assert log.acquire("a") == 0
    reply = log.do(request_)
    for each in (log, log.restarted()):
        each.monotonic_ms = 0
        written = len(each.batches)
        again = each.do(request_)
        assert again.last_offset == reply.last_offset
        assert each.do(other).last_offset == reply.last_offset
        assert len(each.batches) == written


def test_a_repeated_acquisition_tells_the_lease_as_it_was_also_when_it_is_over() -> None:
    log = Log()
    request = AcquireGroup(group_id=b"g", holder="a", ttl_ms=TTL_MS, request_id=b"1")
    first = log.do(request)
    second = log.acquire("b", force=True)
    again = log.do(request)
    assert (again.lease.epoch, again.lease.holder) == (first.lease.epoch, "a")
    assert (again.expire_ms, again.lease.granted_ms) == (-1, -1)
    log.commit(1, epoch=second)


def test_retention_is_set_kept_beside_the_lease_and_taken_back() -> None:
    log = Log()
    epoch = log.acquire()
    log.do(UpdateGroup(group_id=b"g", retention_ms=5000))
    assert (
        log.shard.get_group(b"g", *log.now).settings
        == log.restarted().shard.get_group(b"g", *log.now).settings
    )
    log.commit(1, epoch=epoch)  # The lease stands, with the epoch that it had.
    log.do(UpdateGroup(group_id=b"g", never_expires=True))
    log.release(epoch)
    settings = log.shard.get_group(b"g", *log.now).settings
    assert settings == GroupSettings(never_expires=True)
    log.do(UpdateGroup(group_id=b"g"))
    assert log.shard.get_group(b"g", *log.now).settings is None


def test_an_update_that_changes_nothing_or_is_only_tried_writes_nothing() -> None:
    log = Log()
    unchanged(log, UpdateGroup(group_id=b"g", retention_ms=1), GroupIdNotFound)
    assert log.do(UpdateGroup(group_id=b"g", allow_missing=True)) == UpdateGroupReply(None)
    request = UpdateGroup(group_id=b"g", retention_ms=1, allow_missing=True, validate_only=True)
    assert log.do(request) == UpdateGroupReply(None)
    assert log.batches == []
    log.do(UpdateGroup(group_id=b"g", retention_ms=1, allow_missing=True))
    assert log.do(UpdateGroup(group_id=b"g", retention_ms=1)) == UpdateGroupReply(None)
    assert len(log.batches) == 1


def test_a_group_is_deleted_with_its_settings() -> None:
    log = Log()
    log.commit(1)
    log.do(UpdateGroup(group_id=b"g", never_expires=True))
    log.do(DeleteGroup(group_id=b"g"))
    assert log.shard._state.known_group_records(b"g") is None
    assert log.restarted().shard.counters().group_count == 0


@pytest.mark.parametrize(
    "request_",
    [
        commit("g", entry("t", 0, 9)),
        AcquireGroup(group_id=b"g", holder="a", ttl_ms=TTL_MS),
        UpdateGroup(group_id=b"g", retention_ms=1),
        DeleteGroup(group_id=b"g"),
    ],
)
def test_settings_that_cannot_be_read_may_be_a_lease(request_: Request) -> None:
    log = Log(batch_of(0, (SETTINGS_KEY, b"\0\1"), (offset_key("g"), offset_value(5))))
    unchanged(log, request_, RecordUndecodable)
    epoch = log.acquire("a", force=True)
    log.commit(6, epoch=epoch)


def test_force_does_not_help_where_there_may_be_members() -> None:
    log = Log(batch_of(0, (SETTINGS_KEY, b"\0\1"), (group_key("g"), b"\0\x63")))
    request = AcquireGroup(group_id=b"g", holder="a", ttl_ms=TTL_MS, force=True)
    unchanged(log, request, RecordUndecodable)


def test_what_does_not_fit_a_batch_is_refused() -> None:
    log = Log(message_bytes_max=120)
    request = AcquireGroup(group_id=b"g" * 100, holder="a", ttl_ms=TTL_MS)
    unchanged(log, request, InvalidCommitSize)


@pytest.mark.parametrize("version", [1, 4])
def test_a_commit_with_a_retention_expires_by_itself(version: int) -> None:
    log = Log(offset_commit_value_version=version)
    log.commit(5, retention_ms=1000)
    log.commit(6)
    log.do(commit("g", entry("t", 1, 7), retention_ms=2**48))
    for each in (log, log.restarted()):
        expiries = [stored.expire_timestamp_ms for stored in each.shard.fetch(b"g")]
        assert expiries == [-1, NOW_MS + 2**48]
    [stored] = Log(*log.batches[:1]).shard.fetch(b"g")
    assert stored.expire_timestamp_ms == NOW_MS + 1000


def test_a_retention_that_the_version_cannot_hold_is_refused() -> None:
    log = Log(offset_commit_value_version=3)
    unchanged(log, commit("g", entry("t", 0, 1), retention_ms=1000), InvalidRetention)
    log.commit(1)

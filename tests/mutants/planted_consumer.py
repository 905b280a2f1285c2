"""Planted bugs of consumers: what they commit, and when they believe to have partitions."""

from __future__ import annotations

from mutants.planted import Mutant

_LIVES = "tests/property/test_consumer_lives.py"
_PART = "tests/unit/clients/consumer/test_group_roles.py"
_POSITIONS = "tests/unit/clients/consumer/test_positions.py"

CONSUMER_MUTANTS = (
    Mutant(
        name="committed before it is processed",
        where="offsetd_clients.consumer.positions:Positions.give",
        replace="self._given[item.topic_partition] = Position(item.offset_next, item.leader_epoch)",
        by=(
            "self.processed[item.topic_partition] = Position(item.offset_next, "
            "item.leader_epoch)\n"
            "self._moved.add(item.topic_partition)"
        ),
        caught_by=_LIVES,
    ),
    Mutant(
        name="assigned before revoked",
        where="offsetd_clients.consumer.group_role:GroupRole._rebalance",
        replace=(
            "    self.phase = Phase.YIELDING\nelif self.phase in (Phase.ARRIVED, Phase.ENTERING):"
        ),
        by="    self._enter_again()\nelif self.phase in (Phase.ARRIVED, Phase.ENTERING):",
        caught_by=_LIVES,
    ),
    Mutant(
        name="committed after it was lost",
        where="offsetd_clients.consumer.member_role:MemberRole._forget",
        replace="self.standing = self._membership = None",
        by="self._membership = None",
        caught_by=_PART,
    ),
    Mutant(
        name="items are given out when the session may be over",
        where="offsetd_clients.consumer.group_role:GroupRole.may_give",
        replace="return self.phase is Phase.HOLDING and now_s < self.alive_until_s",
        by="return self.phase is Phase.HOLDING",
        caught_by=_LIVES,
    ),
    Mutant(
        name="a fenced consumer joins again as if nothing had happened",
        where="offsetd_clients.consumer.group_role:GroupRole._fence",
        replace="self._lose(fenced_by(error, had))",
        by="self._enter_again()",
        caught_by=_LIVES,
    ),
    Mutant(
        name="what is read and not given out yet is kept over a rebalance",
        where="offsetd_clients.consumer.positions:Backlog.assign",
        replace="self._items.clear()\nself._next = dict(starts)",
        by="self._next = dict(starts)",
        caught_by=_LIVES,
    ),
    Mutant(
        name="unchanged offsets are sent again",
        where="offsetd_clients.consumer.positions:Positions.to_commit",
        replace="if self.committed.get(each) != self.processed[each].offset",
        by="",
        caught_by=_POSITIONS,
    ),
    Mutant(
        name="a commit in doubt is taken for done",
        where="offsetd_clients.consumer.positions:Positions.note_in_doubt",
        replace="self.committed.pop(topic_partition, None)",
        by="",
        caught_by=_POSITIONS,
    ),
    Mutant(
        name="a start is not committed",
        where="offsetd_clients.consumer.positions:Positions",
        replace="            self._moved.add(topic_partition)\n\ndef clear",
        by="\ndef clear",
        caught_by=_POSITIONS,
    ),
)

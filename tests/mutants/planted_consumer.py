"""Planted bugs of consumers: what they commit, and when they believe to have partitions."""

from __future__ import annotations

from mutants.planted import Mutant

_CONSUMER = "clients/offsetd_clients/consumer"
_LIVES = "tests/property/test_consumer_lives.py"
_PART = "tests/unit/clients/test_consumer_part.py"
_POSITIONS = "tests/unit/clients/test_consumer_positions.py"

CONSUMER_MUTANTS = (
    Mutant(
        name="committed before it is processed",
        file=f"{_CONSUMER}/positions.py",
        replace=(
            "        self._given[item.topic_partition] ="
            " Position(item.offset_next, item.leader_epoch)\n"
        ),
        by=(
            "        self.processed[item.topic_partition] ="
            " Position(item.offset_next, item.leader_epoch)\n"
            "        self._moved.add(item.topic_partition)\n"
        ),
        caught_by=_LIVES,
    ),
    Mutant(
        name="assigned before revoked",
        file=f"{_CONSUMER}/part.py",
        replace=(
            "            self.phase = Phase.YIELDING\n"
            "        elif self.phase in (Phase.ARRIVED, Phase.ENTERING):\n"
        ),
        by=(
            "            self._enter_again()\n"
            "        elif self.phase in (Phase.ARRIVED, Phase.ENTERING):\n"
        ),
        caught_by=_LIVES,
    ),
    Mutant(
        name="committed after it was lost",
        file=f"{_CONSUMER}/member_part.py",
        replace="        self.standing = self._membership = None\n",
        by="        self._membership = None\n",
        caught_by=_PART,
    ),
    Mutant(
        name="items are given out when the session may be over",
        file=f"{_CONSUMER}/part.py",
        replace="        return self.phase is Phase.HOLDING and now_s < self.alive_until_s\n",
        by="        return self.phase is Phase.HOLDING\n",
        caught_by=_LIVES,
    ),
    Mutant(
        name="a fenced consumer joins again as if nothing had happened",
        file=f"{_CONSUMER}/part.py",
        replace="            self._lose(fenced_by(error, had))\n",
        by="            self._enter_again()\n",
        caught_by=_LIVES,
    ),
    Mutant(
        name="what is read and not given out yet is kept over a rebalance",
        file=f"{_CONSUMER}/positions.py",
        replace=("        self._items.clear()\n        self._next = dict(starts)\n"),
        by="        self._next = dict(starts)\n",
        caught_by=_LIVES,
    ),
    Mutant(
        name="unchanged offsets are sent again",
        file=f"{_CONSUMER}/positions.py",
        replace="            if self.committed.get(each) != self.processed[each].offset\n",
        by="",
        caught_by=_POSITIONS,
    ),
    Mutant(
        name="a commit in doubt is taken for done",
        file=f"{_CONSUMER}/positions.py",
        replace="                self.committed.pop(topic_partition, None)\n",
        by="",
        caught_by=_POSITIONS,
    ),
    Mutant(
        name="a start is not committed",
        file=f"{_CONSUMER}/positions.py",
        replace="                self._moved.add(topic_partition)\n\n    def clear",
        by="\n    def clear",
        caught_by=_POSITIONS,
    ),
)

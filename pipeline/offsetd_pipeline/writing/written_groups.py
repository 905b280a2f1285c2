"""The rows of all tasks of a write, as groups. Each group is one commit or none."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from offsetd_clients import TopicPartition

from offsetd_pipeline.writing.columns import RANK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]
    Ranks = npt.NDArray[np.int32]

_ROWS_AT_ONCE: Final = 50_000
"""The approximate number of rows that are Python objects at one time. A group is not divided."""


class GroupRows:
    """The rows of one group, sorted by topic and partition.

    All groups share the same columns; a group is a range of their rows. `repeated` has the indexes
    of the rows whose topic and partition another row of the group also has. Indexes start at 0.
    """

    __slots__ = ("_begin", "_columns", "_end", "group_id", "repeated")

    def __init__(
        self,
        group_id: str,
        columns: Mapping[str, Sequence[Any]],
        begin: int,
        end: int,
        repeated: Sequence[int],
    ) -> None:
        self.group_id = group_id
        self.repeated = repeated
        self._columns = columns
        self._begin = begin
        self._end = end

    def __len__(self) -> int:
        return self._end - self._begin

    def has(self, name: str) -> bool:
        """Whether the table has a column of that name."""
        return name in self._columns

    def column(self, name: str) -> Sequence[Any]:
        """A column's values; nulls if the table does not have it."""
        values = self._columns.get(name)
        return [None] * len(self) if values is None else values[self._begin : self._end]

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the group. Each row is a dict of column name and value."""
        for place in range(self._begin, self._end):
            yield {name: values[place] for name, values in self._columns.items()}

    def partitions(self) -> list[TopicPartition]:
        """The partition of each row."""
        return [*map(TopicPartition, self.column("topic"), self.column("partition"))]


class GroupedRows:
    """The rows of all tasks by group, topic and partition.

    If rows have ranks, it has only the rows with the highest rank of each partition.
    `superseded_count` counts the others.
    """

    def __init__(self, tables: Sequence[pa.Table]) -> None:
        """`tables` are those of the tasks, all with one schema."""
        self._table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
        del tables  # The tables were copied, and may be large.
        keys = {name: _ranks(self._table.column(name)) for name in ("group", "topic")}
        partitions = self._table.column("partition").to_numpy()
        # A row is replaced only by a later one; two rows of equal rank both stay.
        ranks = np.zeros(len(partitions), np.int64)
        if RANK in self._table.column_names:
            ranks = self._table.column(RANK).to_numpy()
            self._table = self._table.drop_columns([RANK])
        order = np.lexsort((ranks, partitions, keys["topic"], keys["group"]))
        places = [each[order] for each in (keys["group"], keys["topic"], partitions)]
        self._order: Numbers = order[_is_latest(ranks[order], places)]
        self.superseded_count = len(order) - len(self._order)
        groups, topics = keys["group"][self._order], keys["topic"][self._order]
        partitions = partitions[self._order]
        is_group_same = groups[1:] == groups[:-1]
        is_same = is_group_same & (topics[1:] == topics[:-1]) & (partitions[1:] == partitions[:-1])
        starts = np.flatnonzero(np.concatenate(([True], ~is_group_same)))
        self._bounds = np.append(starts, len(self._order))
        twice = np.flatnonzero(is_same)
        self._repeated = np.union1d(twice, twice + 1)

    def __len__(self) -> int:
        """The number of groups."""
        return len(self._bounds) - 1

    @property
    def row_count(self) -> int:
        """The number of rows of all groups, without superseded ones."""
        return len(self._order)

    def __iter__(self) -> Iterator[GroupRows]:
        """Yields each group, in the order of names."""
        first = 0
        while first < len(self):
            begin = self._bounds[first]
            last = int(np.searchsorted(self._bounds, begin + _ROWS_AT_ONCE, "right")) - 1
            last = min(max(last, first + 1), len(self))
            yield from self._groups(self._bounds[first : last + 1])
            first = last

    def _groups(self, bounds: Numbers) -> Iterator[GroupRows]:
        begin, end = bounds[0], bounds[-1]
        taken = self._table.take(pa.array(self._order[begin:end]))
        columns = {name: _values(taken.column(name)) for name in taken.column_names}
        low, high = np.searchsorted(self._repeated, (begin, end))
        repeated = self._repeated[low:high]
        group_ids = columns["group"]
        edges = (bounds - begin).tolist()
        for start, stop in pairwise(edges):
            mine: list[int] = []
            if len(repeated):
                low, high = np.searchsorted(repeated, (begin + start, begin + stop))
                mine = (repeated[low:high] - begin - start).tolist()
            yield GroupRows(group_ids[start], columns, start, stop, mine)


def _is_latest(ranks: Numbers, places: Sequence[npt.NDArray[Any]]) -> Mask:
    """A mask of the rows with the highest rank at their place. The rows are sorted by both."""
    is_same = np.ones(len(ranks) - 1, np.bool_)
    for each in places:
        is_same &= each[1:] == each[:-1]
    is_last = np.concatenate((~is_same, [True]))
    run = np.cumsum(np.concatenate(([False], ~is_same)))
    found: Mask = ranks == ranks[is_last][run]
    return found


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([each.dictionary_decode() for each in column.chunks])
    values: list[Any] = column.to_pylist()
    return values


def _ranks(column: pa.ChunkedArray) -> Ranks:
    """The place of each row's name among all names in order."""
    names = column.chunk(0)
    order = pc.array_sort_indices(names.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    found: Ranks = ranks[names.indices.to_numpy()]
    return found

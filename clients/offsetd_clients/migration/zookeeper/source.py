"""A ZooKeeper as the source of a plan."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from offsetd_clients.migration.values import (
    FoundGroup,
    MigrationError,
    Problem,
    ProblemKind,
    SourceDescription,
)
from offsetd_clients.migration.zookeeper.connection import STATE_ROOT_DEFAULT, Marks
from offsetd_clients.migration.zookeeper.layouts import layout_of
from offsetd_clients.migration.zookeeper.layouts.layout import Layout, LayoutOptions
from offsetd_clients.migration.zookeeper.tree import Tree

KIND = "zookeeper"
_CHUNK_GROUPS = 64


@attrs.frozen(kw_only=True)
class ZooKeeperSource:
    """Groups in one layout. `takes` says which are read at all; `marks` None: those that have moved
    are read like others.
    """

    tree: Tree
    hosts: str
    layout_name: str
    options: LayoutOptions
    layout: Layout
    marks: Marks | None = None
    takes: Callable[[str], bool] = attrs.field(default=lambda _: True)

    @classmethod
    def of(
        cls,
        tree: Tree,
        hosts: str,
        layout_name: str,
        options: LayoutOptions,
        *,
        marks: Marks | None = None,
        takes: Callable[[str], bool] = lambda _: True,
    ) -> "ZooKeeperSource":
        """Raises BadLayout."""
        return cls(
            tree=tree,
            hosts=hosts,
            layout_name=layout_name,
            options=options,
            layout=layout_of(layout_name, options),
            marks=marks,
            takes=takes,
        )

    @property
    def description(self) -> SourceDescription:
        return SourceDescription(
            kind=KIND,
            address=self.hosts,
            options={"layout": self.layout_name, **attrs.asdict(self.options)},
        )

    def groups(self) -> Iterator[FoundGroup | Problem]:
        """Read some groups at a time."""
        chunk: list[str] = []
        for group_id in self.layout.group_ids(self.tree):
            if isinstance(group_id, Problem):
                yield group_id
            elif self.takes(group_id):
                chunk.append(group_id)
                if len(chunk) == _CHUNK_GROUPS:
                    yield from self._with_marks(chunk)
                    chunk = []
        if chunk:
            yield from self._with_marks(chunk)

    def read_again(self, group_ids: Sequence[str]) -> Iterator[FoundGroup]:
        """Marks do not matter then."""
        for start in range(0, len(group_ids), _CHUNK_GROUPS):
            yield from self.layout.read(self.tree, group_ids[start : start + _CHUNK_GROUPS])

    def _with_marks(self, group_ids: list[str]) -> Iterable[FoundGroup]:
        found = self.layout.read(self.tree, group_ids)
        if self.marks is None:
            return found
        marked = self.marks.read(self.tree, group_ids)
        return [
            attrs.evolve(
                group,
                problems=(
                    *group.problems,
                    Problem(
                        kind=ProblemKind.MIGRATED,
                        where=self.marks.path(group.group_id),
                        detail=f"it has moved, by plan {marked[group.group_id].get('plan_id')}",
                        group_id=group.group_id,
                    ),
                ),
            )
            if group.group_id in marked
            else group
            for group in found
        ]


def options_of(description: SourceDescription) -> tuple[str, LayoutOptions]:
    """The layout that a plan was made with. Raises MigrationError if its source is none of ours."""
    if description.kind != KIND:
        raise MigrationError(f"the plan is of a source of kind {description.kind!r}, not {KIND!r}")
    options = dict(description.options)
    return str(options.pop("layout")), LayoutOptions(**options)


def marks_of(description: SourceDescription, state_root: str = STATE_ROOT_DEFAULT) -> Marks:
    """Where the groups of a plan are marked."""
    layout, options = options_of(description)
    return Marks(layout=layout, layout_root=options.root, state_root=state_root)

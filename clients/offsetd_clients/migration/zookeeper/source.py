"""A ZooKeeper as the source of a plan."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.values import (
    FoundGroup,
    MigrationError,
    Problem,
    ProblemKind,
    SourceDescription,
    SourceFailed,
)
from offsetd_clients.migration.zookeeper.connection import STATE_ROOT_DEFAULT, Marks
from offsetd_clients.migration.zookeeper.layouts import layout_of
from offsetd_clients.migration.zookeeper.layouts.layout import Layout, LayoutOptions
from offsetd_clients.migration.zookeeper.tree import Tree

KIND = "zookeeper"
_CHUNK_GROUPS = 64
_SETTLING_READS = 3


@attrs.frozen(kw_only=True)
class ZooKeeperSource:
    """Groups in one layout. Only groups that `takes` accepts are read.

    `marks` is None if groups that have moved are read like others.
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
        """Makes the source from the name of a layout. Raises BadLayout."""
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
        """Yields the groups, reading some at a time."""
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
        """Reads groups again. It ignores marks."""
        for start in range(0, len(group_ids), _CHUNK_GROUPS):
            chunk = group_ids[start : start + _CHUNK_GROUPS]
            for found in self.layout.read(self.tree, chunk):
                if any(each.kind is ProblemKind.VANISHED for each in found.problems):
                    yield read_settled(self.layout, self.tree, found.group_id)
                else:
                    yield found

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


def read_settled(layout: Layout, tree: Tree, group_id: str) -> FoundGroup:
    """The present state of a group. Znodes that have vanished are not problems.

    Raises SourceFailed.
    """
    for _ in range(_SETTLING_READS):
        [found] = layout.read(tree, [group_id])
        if not found.problems or any(
            each.kind is not ProblemKind.VANISHED for each in found.problems
        ):
            return found
        layout.forget()  # A znode was removed after it was listed; or the whole group was removed.
    return attrs.evolve(found, problems=()) if not found.offsets else found


def check_address(plan: Plan, hosts: str) -> None:
    """Raises MigrationError for another chroot than the plan's: paths would mean other znodes."""
    if plan.source.kind != KIND:
        return
    planned, named = _chroot(plan.source.address), _chroot(hosts)
    if planned != named:
        raise MigrationError(
            f"the plan is of {plan.source.address}, below {planned}; --hosts {hosts} names {named}"
        )


def check_root_there(layout: Layout, tree: Tree) -> None:
    """Raises SourceFailed if the root of a layout does not exist."""
    try:
        next(iter(layout.group_ids(tree)), None)
    except SourceFailed as error:
        raise SourceFailed(f"{error}; is this the plan's ZooKeeper?") from error.__cause__


def check_groups_there(layout: Layout, tree: Tree, plan: Plan) -> None:
    """Raises SourceFailed if no group of a plan exists: that many deletions are not followed."""
    planned = {group.source_group_id for group in plan.groups()}
    if planned and planned.isdisjoint(
        each for each in layout.group_ids(tree) if isinstance(each, str)
    ):
        raise SourceFailed(
            "no group of the plan is in this ZooKeeper: so its deletions are not followed"
        )


def _chroot(hosts: str) -> str:
    _, slash, chroot = hosts.partition("/")
    return slash + chroot.rstrip("/") or "/"


def options_of(description: SourceDescription) -> tuple[str, LayoutOptions]:
    """The layout of a plan. Raises MigrationError if its source is not a ZooKeeper."""
    if description.kind != KIND:
        raise MigrationError(f"the plan is of a source of kind {description.kind!r}, not {KIND!r}")
    options = dict(description.options)
    return str(options.pop("layout")), LayoutOptions(**options)


def marks_of(description: SourceDescription, state_root: str = STATE_ROOT_DEFAULT) -> Marks:
    """The marks of a plan's groups."""
    layout, options = options_of(description)
    return Marks(layout=layout, layout_root=options.root, state_root=state_root)

"""The options of `kafka-acls.sh`, and the rules and filters that they mean."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import product
from typing import Annotated, TypeVar

import attrs
import typer

from offsetd_clients.acl_values import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

Word = TypeVar("Word", bound=StrEnum)

_ANY_HOST = "*"
_OF_A_CONSUMER = {
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DESCRIBE),
    ResourceType.TOPIC: (AclOperation.READ,),
}
"""The operations of `--consumer`: to commit offsets of a topic as a group, and to fetch them."""

AllowPrincipalsOption = Annotated[
    list[str] | None,
    typer.Option("--allow-principal", metavar="USER", help="User:NAME, or User:*; repeatable."),
]
DenyPrincipalsOption = Annotated[
    list[str] | None,
    typer.Option("--deny-principal", metavar="USER", help="User:NAME, or User:*; repeatable."),
]
AllowHostsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host", metavar="ADDRESS", help="Of --allow-principal: an IP address; repeatable."
    ),
]
DenyHostsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--deny-host", metavar="ADDRESS", help="Of --deny-principal: an IP address; repeatable."
    ),
]
OperationsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--operation", metavar="OPERATION", help="As in Read; without one: All; repeatable."
    ),
]
GroupsOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", help="A group, or *; repeatable.")
]
TopicsOption = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="A topic, or *; repeatable.")
]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The server as a whole.")]
PatternTypeOption = Annotated[
    str,
    typer.Option("--resource-pattern-type", metavar="TYPE", help="literal or prefixed."),
]
PatternFilterOption = Annotated[
    str,
    typer.Option(
        "--resource-pattern-type",
        metavar="TYPE",
        help="literal, prefixed, any, or match: the rules that count for the resource.",
    ),
]
ConsumerOption = Annotated[
    bool,
    typer.Option(
        "--consumer", help="What a consumer needs: Read and Describe of --group, Read of --topic."
    ),
]


@attrs.frozen(kw_only=True)
class Resources:
    """The resources that options name. Raises typer.BadParameter for an unknown pattern type."""

    groups: Sequence[str]
    topics: Sequence[str]
    cluster: bool
    pattern_type: PatternType

    @classmethod
    def of(
        cls,
        groups: Sequence[str] | None,
        topics: Sequence[str] | None,
        pattern_type: str,
        *,
        cluster: bool,
        allowed: Iterable[PatternType] = (PatternType.LITERAL, PatternType.PREFIXED),
    ) -> "Resources":
        """The resources; `allowed` are the pattern types that the command takes."""
        return cls(
            groups=groups or (),
            topics=topics or (),
            cluster=cluster,
            pattern_type=_parse(PatternType, pattern_type, "a pattern type here", allowed),
        )

    def __iter__(self) -> Iterator[tuple[ResourceType, str, PatternType]]:
        """Yields the type, the name and the pattern type of each."""
        for name in self.groups:
            yield ResourceType.GROUP, name, self.pattern_type
        for name in self.topics:
            yield ResourceType.TOPIC, name, self.pattern_type
        if self.cluster:
            is_filter = self.pattern_type in (PatternType.ANY, PatternType.MATCH)
            pattern_type = self.pattern_type if is_filter else PatternType.LITERAL
            yield ResourceType.CLUSTER, "kafka-cluster", pattern_type

    def __bool__(self) -> bool:
        return bool(self.groups or self.topics or self.cluster)

    @property
    def are_exact(self) -> bool:
        """Whether the pattern type is that of rules, not only of filters."""
        return self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)


@attrs.frozen(kw_only=True)
class Grants:
    """The parts of rules except their resources. Raises typer.BadParameter for wrong options."""

    allow_principals: Sequence[str]
    deny_principals: Sequence[str]
    allow_hosts: Sequence[str]
    deny_hosts: Sequence[str]
    operations: Sequence[AclOperation]
    is_consumer: bool

    @classmethod
    def of(
        cls,
        allow_principals: Sequence[str] | None,
        deny_principals: Sequence[str] | None,
        allow_hosts: Sequence[str] | None,
        deny_hosts: Sequence[str] | None,
        operations: Sequence[str] | None,
        *,
        consumer: bool,
    ) -> "Grants":
        """Reads the options."""
        if allow_hosts and not allow_principals:
            raise typer.BadParameter("--allow-host needs --allow-principal")
        if deny_hosts and not deny_principals:
            raise typer.BadParameter("--deny-host needs --deny-principal")
        if operations and not (allow_principals or deny_principals):
            raise typer.BadParameter("--operation needs --allow-principal or --deny-principal")
        if consumer and (operations or deny_principals or not allow_principals):
            raise typer.BadParameter("--consumer goes with --allow-principal, and no --operation")
        return cls(
            allow_principals=allow_principals or (),
            deny_principals=deny_principals or (),
            allow_hosts=allow_hosts or (_ANY_HOST,),
            deny_hosts=deny_hosts or (_ANY_HOST,),
            operations=[parse_operation(each) for each in operations or ()] or [AclOperation.ALL],
            is_consumer=consumer,
        )

    def __bool__(self) -> bool:
        return bool(self.allow_principals or self.deny_principals)

    def filters(self, resources: Resources) -> list[AclFilter]:
        """A filter for each rule: each principal, host and operation on each resource."""
        if self.is_consumer and not (
            resources.groups and resources.topics and not resources.cluster
        ):
            raise typer.BadParameter("--consumer needs --group and --topic, and no --cluster")
        said = [
            *product((AclPermission.ALLOW,), self.allow_principals, self.allow_hosts),
            *product((AclPermission.DENY,), self.deny_principals, self.deny_hosts),
        ]
        return [
            AclFilter(
                principal=principal,
                host=host,
                permission=permission,
                operation=operation,
                resource_type=resource_type,
                name=name,
                pattern_type=pattern_type,
            )
            for resource_type, name, pattern_type in resources
            for permission, principal, host in said
            for operation in self._operations(resource_type)
        ]

    def _operations(self, resource_type: ResourceType) -> Sequence[AclOperation]:
        return _OF_A_CONSUMER[resource_type] if self.is_consumer else self.operations


def rule_of(wanted: AclFilter) -> Acl:
    """The rule that a filter with all its fields means."""
    assert wanted.permission is not None
    assert wanted.operation is not None
    assert wanted.resource_type is not None
    return Acl(
        principal=wanted.principal,
        host=wanted.host,
        permission=wanted.permission,
        operation=wanted.operation,
        resource_type=wanted.resource_type,
        name=wanted.name,
        pattern_type=wanted.pattern_type,
    )


def filters_of(principals: Sequence[str], resources: Resources) -> list[AclFilter]:
    """Filters by principal and by resource; without either, one for all rules."""
    if not resources:
        if resources.pattern_type not in (PatternType.LITERAL, PatternType.ANY):
            raise typer.BadParameter("--resource-pattern-type needs --group, --topic or --cluster")
        return [AclFilter(principal=principal) for principal in principals or ("",)]
    return [
        AclFilter(
            principal=principal,
            resource_type=resource_type,
            name=name,
            pattern_type=pattern_type,
        )
        for resource_type, name, pattern_type in resources
        for principal in principals or ("",)
    ]


def parse_operation(text: str) -> AclOperation:
    """The operation of this name, in any case. Raises typer.BadParameter."""
    allowed = [each for each in AclOperation if each is not AclOperation.UNKNOWN]
    return _parse(AclOperation, text, "an operation here", allowed)


def _parse(kind: type[Word], text: str, what: str, allowed: Iterable[Word]) -> Word:
    for word in allowed:
        if word.lower() == text.lower():
            return kind(word)
    raise typer.BadParameter(f"{text!r} is not {what}: use one of {', '.join(allowed)}.")

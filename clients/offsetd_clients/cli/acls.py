"""`offsetd acls list|add|remove|test`: the rules that say what callers may do."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from offsetd_clients.acl_values import Acl, AclFilter, PatternType
from offsetd_clients.cli.arguments.acl_options import (
    AllowHostsOption,
    AllowPrincipalsOption,
    ClusterOption,
    ConsumerOption,
    DenyHostsOption,
    DenyPrincipalsOption,
    Grants,
    GroupsOption,
    OperationsOption,
    PatternFilterOption,
    PatternTypeOption,
    Resources,
    TopicsOption,
    filters_of,
    parse_operation,
    rule_of,
)
from offsetd_clients.cli.arguments.options import DryRunOption, ReasonOption
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.printing.terminal import Row, Terminal
from offsetd_clients.plurals import counted

COLUMNS = (
    "resource_type",
    "name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)
TEST_COLUMNS = (
    "allowed",
    "principal",
    "host",
    "operation",
    "resource_type",
    "name",
    "super_user",
    "rule",
)
_FILTER_TYPES = (PatternType.LITERAL, PatternType.PREFIXED, PatternType.ANY, PatternType.MATCH)
_NOT_IN_FORCE = (
    "rules are not in force on this server (security.acl.enable): callers may do everything"
)
_PREFIX_OF_ANY = (
    "a prefix of * is only for names that begin with *; for all names: --resource-pattern-type"
    " literal"
)

PrincipalsOption = Annotated[
    list[str] | None,
    typer.Option("--principal", metavar="USER", help="Only rules of User:NAME; repeatable."),
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `acls` with its subcommands."""
    acls = typer.Typer(help="Say who may do what on the server.", no_args_is_help=True)
    _register_list(acls, terminal)
    _register_add(acls, terminal)
    _register_remove(acls, terminal)
    _register_test(acls, terminal)
    app.add_typer(acls, name="acls")


def _register_list(acls: typer.Typer, terminal: Terminal) -> None:
    @acls.command("list")
    def list_(
        *,
        principals: PrincipalsOption = None,
        groups: GroupsOption = None,
        topics: TopicsOption = None,
        cluster: ClusterOption = False,
        pattern_type: PatternFilterOption = PatternType.LITERAL,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print the rules: all of them, or those of some principals or resources.

        Examples:
            offsetd acls list
            offsetd acls list --principal User:billing
            offsetd acls list --group billing-eu --resource-pattern-type match
            offsetd acls list -o json > rules.json
        """
        resources = Resources.of(
            groups, topics, pattern_type, cluster=cluster, allowed=_FILTER_TYPES
        )
        with connected(address, timeout, terminal) as client:
            listings = [
                client.list_acls(wanted) for wanted in filters_of(principals or (), resources)
            ]
        found = dict.fromkeys(acl for listing in listings for acl in listing.acls)
        terminal.rows(COLUMNS, _rows(found))
        if listings[-1].from_file:
            terminal.note("the rules come from the server's security.acl.file")
        _note_force(terminal, in_force=listings[-1].in_force)


def _register_add(acls: typer.Typer, terminal: Terminal) -> None:
    @acls.command("add")
    def add(
        *,
        allow_principals: AllowPrincipalsOption = None,
        deny_principals: DenyPrincipalsOption = None,
        allow_hosts: AllowHostsOption = None,
        deny_hosts: DenyHostsOption = None,
        operations: OperationsOption = None,
        groups: GroupsOption = None,
        topics: TopicsOption = None,
        cluster: ClusterOption = False,
        pattern_type: PatternTypeOption = PatternType.LITERAL,
        consumer: ConsumerOption = False,
        dry_run: DryRunOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Add rules: each principal, host and operation on each resource. All or none of them.

        They count at once. Prints the rules that were not there before.

        Examples:
            offsetd acls add --allow-principal User:a --consumer --group g --topic t
            offsetd acls add --allow-principal User:a --operation Alter --group '*'
            offsetd acls add --deny-principal 'User:*' --deny-host 10.0.0.9 --group g
        """
        resources = Resources.of(groups, topics, pattern_type, cluster=cluster)
        grants = Grants.of(
            allow_principals,
            deny_principals,
            allow_hosts,
            deny_hosts,
            operations,
            consumer=consumer,
        )
        if not grants:
            raise typer.BadParameter("say --allow-principal or --deny-principal")
        if not resources:
            raise typer.BadParameter("say --group, --topic or --cluster")
        rules = [rule_of(each) for each in grants.filters(resources)]
        with connected(address, timeout, terminal) as client:
            added = client.add_acls(rules, validate_only=dry_run, reason=reason)
        terminal.rows(COLUMNS, _rows(added.acls))
        there = len(dict.fromkeys(rules)) - len(added.acls)
        if there:
            terminal.note(f"{counted(there, 'rule was', 'rules were')} there already")
        if any((each.name, each.pattern_type) == ("*", PatternType.PREFIXED) for each in rules):
            terminal.note(_PREFIX_OF_ANY)
        if dry_run:
            terminal.note("dry run: nothing was added")
        _note_force(terminal, in_force=added.in_force)


def _register_remove(acls: typer.Typer, terminal: Terminal) -> None:
    @acls.command("remove")
    def remove(
        *,
        principals: PrincipalsOption = None,
        allow_principals: AllowPrincipalsOption = None,
        deny_principals: DenyPrincipalsOption = None,
        allow_hosts: AllowHostsOption = None,
        deny_hosts: DenyHostsOption = None,
        operations: OperationsOption = None,
        groups: GroupsOption = None,
        topics: TopicsOption = None,
        cluster: ClusterOption = False,
        pattern_type: PatternFilterOption = PatternType.LITERAL,
        consumer: ConsumerOption = False,
        dry_run: DryRunOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Remove rules: all or none. Prints the rules that were removed.

        With --allow-principal or --deny-principal: the rules that `add` makes of the same options.
        Else: all rules of the resources, or of --principal.

        Examples:
            offsetd acls remove --allow-principal User:a --operation Alter --group '*'
            offsetd acls remove --group eu- --resource-pattern-type prefixed --dry-run
            offsetd acls remove --principal User:billing --reason "they left"
        """
        resources = Resources.of(
            groups, topics, pattern_type, cluster=cluster, allowed=_FILTER_TYPES
        )
        grants = Grants.of(
            allow_principals,
            deny_principals,
            allow_hosts,
            deny_hosts,
            operations,
            consumer=consumer,
        )
        wanted = _to_remove(principals or (), grants, resources)
        with connected(address, timeout, terminal) as client:
            removed = client.remove_acls(wanted, validate_only=dry_run, reason=reason)
        terminal.rows(COLUMNS, _rows(removed.acls))
        if not removed.acls:
            terminal.note("there is no such rule")
        if dry_run:
            terminal.note("dry run: nothing was removed")
        _note_force(terminal, in_force=removed.in_force)


def _to_remove(
    principals: Iterable[str], grants: Grants, resources: Resources
) -> list[Acl | AclFilter]:
    """The rules and filters to remove. Raises typer.BadParameter if the options name none."""
    named = list(principals)
    if grants:
        if named:
            raise typer.BadParameter("--principal does not go with --allow- or --deny-principal")
        if not resources:
            raise typer.BadParameter("say --group, --topic or --cluster")
        filters = grants.filters(resources)
        # Rules cost the server less than filters, and a request may have more of them.
        return [rule_of(each) for each in filters] if resources.are_exact else [*filters]
    if not (named or resources):
        raise typer.BadParameter("say --principal, --group, --topic or --cluster")
    return [*filters_of(named, resources)]


def _register_test(acls: typer.Typer, terminal: Terminal) -> None:
    @acls.command("test")
    def test(
        *,
        principal: Annotated[
            str, typer.Option("--principal", metavar="USER", help="The caller, User:NAME.")
        ],
        operation: Annotated[
            str, typer.Option("--operation", metavar="OPERATION", help="As in Read.")
        ],
        groups: GroupsOption = None,
        topics: TopicsOption = None,
        cluster: ClusterOption = False,
        host: Annotated[
            str,
            typer.Option(
                "--host", metavar="ADDRESS", help="The caller's; without: one that no rule names."
            ),
        ] = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print whether a caller may do something with a resource, and the rule that decides.

        Exits with 0 if it is allowed, and with 1 if it is denied.

        Examples:
            offsetd acls test --principal User:a --operation Read --group billing
            offsetd acls test --principal User:a --operation Alter --cluster
            offsetd acls test --principal User:a --operation Read --topic t --host ::1
        """
        named = list(Resources.of(groups, topics, PatternType.LITERAL, cluster=cluster))
        if len(named) != 1:
            raise typer.BadParameter("say one --group or --topic, or --cluster")
        [(resource_type, name, _)] = named
        asked = parse_operation(operation)
        with connected(address, timeout, terminal) as client:
            told = client.test_acl(principal, asked, resource_type, name, host=host)
        row: Row = {
            "allowed": told.allowed,
            "principal": principal,
            "host": host or None,
            "operation": asked,
            "resource_type": resource_type,
            "name": name,
            "super_user": told.is_super_user,
            "rule": None if told.acl is None else str(told.acl),
        }
        terminal.rows(TEST_COLUMNS, [row])
        _note_force(terminal, in_force=told.in_force)
        if not told.allowed:
            terminal.fail("denied: no rule allows it" if told.acl is None else "denied by a rule")


def _note_force(terminal: Terminal, *, in_force: bool) -> None:
    if not in_force:
        terminal.note(_NOT_IN_FORCE)


def _rows(acls: Iterable[Acl]) -> Iterator[Row]:
    for acl in acls:
        yield {column: getattr(acl, column) for column in COLUMNS}

"""Planted bugs of stored access rules: what is decided, replayed, answered and printed."""

from __future__ import annotations

from mutants.planted import Mutant

_STATE = "tests/unit/coordinator/configuration/test_acl_state.py"
_FILTER = "tests/unit/coordinator/configuration/test_acl_filter.py"
_RECORD = "tests/unit/coordinator/configuration/test_acl_record.py"
_SERVICE = "tests/unit/coordinator/services/test_acl_calls.py"
_REQUESTS = "tests/unit/coordinator/services/test_acl_requests.py"
_CLIENT = "tests/unit/clients/test_acls.py"
_COMMANDS = "tests/unit/clients/cli/test_acls.py"
_ADMINISTRATION = "offsetd_coordinator.administration.administration:Administration"
_ACL_STATE = "offsetd_coordinator.configuration.acl_state:AclState"
_CALLS = "offsetd_coordinator.services.acl_calls"

ACL_MUTANTS = (
    Mutant(
        name="a node says that its rules may be old although none count",
        where="offsetd_coordinator.configuration.security_settings"
        ":SecuritySettings.has_rules_by_command",
        replace="self.security_acl_enable and not self.security_acl_file",
        by="True",
        caught_by="tests/unit/coordinator/cluster/test_shared_rules.py",
    ),
    Mutant(
        name="a rule counts before it is durable",
        where=f"{_ADMINISTRATION}._apply_acls_in_turn",
        replace="await until_durable(self._log, ticket)",
        by="",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a change of rules is answered before it is in force",
        where=f"{_ADMINISTRATION}.change_acls",
        replace="await asyncio.shield(self._applying_acls)",
        by="pass",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a change of rules that its caller no longer waits for is given up",
        where=f"{_ADMINISTRATION}.change_acls",
        replace="await asyncio.shield(self._applying_acls)",
        by="await self._applying_acls",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a change of rules leaves no record in the audit log",
        where=f"{_ADMINISTRATION}.change_acls",
        replace="self._append_event(event_of(decision.reply))",
        by="event_of(decision.reply)",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="stored rules are not in force after a start",
        where=f"{_ADMINISTRATION}.__init__",
        replace="self._put_acls_in_force(self._applied_acls)",
        by="pass",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="rules change while their log is damaged",
        where=f"{_ADMINISTRATION}.change_acls",
        replace="raise quarantined_own_log(CONFIG_PARTITION, damage)",
        by="pass",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a retry of a removal removes what was added since",
        where=f"{_ACL_STATE}.decide",
        replace="if known is not None:",
        by="if known is not None and not request.is_removal:",
        caught_by=_STATE,
    ),
    Mutant(
        name="a check of a change is taken for a retry",
        where=f"{_ACL_STATE}.decide",
        replace="if request.request_id and not request.validate_only:",
        by="if request.request_id:",
        caught_by=_STATE,
    ),
    Mutant(
        name="a check of a change is written",
        where=f"{_ACL_STATE}.decide",
        replace="if request.validate_only or not keys:",
        by="if not keys:",
        caught_by=_STATE,
    ),
    Mutant(
        name="a rule that is there is written again",
        where=f"{_ACL_STATE}.decide",
        replace="asked & self._acls if request.is_removal else asked - self._acls",
        by="asked & self._acls if request.is_removal else asked",
        caught_by=_STATE,
    ),
    Mutant(
        name="a tombstone of a rule adds it",
        where=f"{_ACL_STATE}.replay",
        replace="self._acls.difference_update(removed)",
        by="self._acls.update(removed)",
        caught_by=_STATE,
    ),
    Mutant(
        name="a snapshot of the rules is never renewed",
        where=f"{_ACL_STATE}.replay",
        replace="self._snapshot = None",
        by="",
        caught_by=_STATE,
    ),
    Mutant(
        name="a removal of many rules is not bounded",
        where=f"{_ACL_STATE}._refusal",
        replace="if len(keys) > CHANGED_ACLS_MAX:",
        by="if len(keys) > CHANGED_ACLS_MAX and not request.is_removal:",
        caught_by=_STATE,
    ),
    Mutant(
        name="a server has any number of rules",
        where=f"{_ACL_STATE}._refusal",
        replace="not request.is_removal and count > ACLS_MAX",
        by="False",
        caught_by=_STATE,
    ),
    Mutant(
        name="rules are taken for settings that cannot be read",
        where="offsetd_coordinator.configuration.config_state:ConfigState._replay_batch",
        replace="if has_acls(batch):\n    self.rules.replay(batch)\n    return",
        by="if has_acls(batch):\n    self.rules.replay(batch)",
        caught_by=_STATE,
    ),
    Mutant(
        name="a rule of a newer server is read as if it had no further fields",
        where="offsetd_coordinator.configuration.acl_record:decode_acl_key",
        replace="if reader.remaining:",
        by="if False:",
        caught_by=_RECORD,
    ),
    Mutant(
        name="a filter with match finds the rules for longer names",
        where="offsetd_coordinator.configuration.acl_filter:AclFilter._matches_resource",
        replace="self.name.startswith(acl.name)",
        by="acl.name.startswith(self.name)",
        caught_by=_FILTER,
    ),
    Mutant(
        name="a filter with match leaves out the rules for all",
        where="offsetd_coordinator.configuration.acl_filter:AclFilter._matches_resource",
        replace="return acl.name == ANY",
        by="return False",
        caught_by=_FILTER,
    ),
    Mutant(
        name="a filter without match finds prefixes, too",
        where="offsetd_coordinator.configuration.acl_filter:AclFilter._matches_resource",
        replace="if self.pattern is not PatternFilter.MATCH:\n    return False",
        by="",
        caught_by=_FILTER,
    ),
    Mutant(
        name="a filter does not look at the host",
        where="offsetd_coordinator.configuration.acl_filter:AclFilter.matches",
        replace="and self.host in (None, acl.host)",
        by="",
        caught_by=_FILTER,
    ),
    Mutant(
        name="rules of a file are changed by calls",
        where=f"{_CALLS}:AclCalls._check_changeable",
        replace="if self._from_file:",
        by="if False:",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a page begins with the last rule of the page before",
        where=f"{_CALLS}:_begin",
        replace="return bisect_right(ordered, acl_order(last), key=acl_order)",
        by="return max(0, bisect_right(ordered, acl_order(last), key=acl_order) - 1)",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a list shows the rules of an earlier change",
        where=f"{_CALLS}:AclCalls._in_order",
        replace="if self._ordered[0] is not acls:",
        by="if not self._ordered[1]:",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a page has any size",
        where=f"{_CALLS}:AclCalls.list_acls",
        replace="or size_bytes > _PAGE_BYTES_MAX",
        by="",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="hosts are compared as text",
        where="offsetd_coordinator.security.acl:known_host",
        replace="return str(mapped or address)",
        by="return host",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a rule for a host that no caller has is accepted",
        where="offsetd_coordinator.security.acl:known_host",
        replace="except ValueError:\n    return None",
        by="except ValueError:\n    return host",
        caught_by=_REQUESTS,
    ),
    Mutant(
        name="a test asks about all callers at once",
        where="offsetd_coordinator.messages.access_rules:read_question",
        replace="if ANY in (principal.removeprefix(USER_PREFIX), host):",
        by="if False:",
        caught_by=_REQUESTS,
    ),
    Mutant(
        name="a record of a newer version is not taken for a rule that may deny",
        where=f"{_ADMINISTRATION}.acls_doubt",
        replace="+ shard.unknown_records",
        by="",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a client lists only the first page of the rules",
        where="offsetd_clients.aio.acls:AclCalls.list_acls",
        replace="while pages[-1].next_page_token:",
        by="while False:",
        caught_by=_CLIENT,
    ),
    Mutant(
        name="a filter of rules is sent as a rule",
        where="offsetd_clients.messages.acl_messages:remove_acls_request",
        replace="if not isinstance(one, AclFilter)",
        by="",
        caught_by=_CLIENT,
    ),
    Mutant(
        name="rules without an operation are about reading only",
        where="offsetd_clients.cli.arguments.acl_options:Grants.of",
        replace="or [AclOperation.ALL]",
        by="or [AclOperation.READ]",
        caught_by=_COMMANDS,
    ),
    Mutant(
        name="a denied test ends as if it were allowed",
        where="offsetd_clients.cli.acls:_register_test.test",
        replace="if not told.allowed:",
        by="if not told.allowed and told.acl is None:",
        caught_by=_COMMANDS,
    ),
    Mutant(
        name="remove without resources removes all rules",
        where="offsetd_clients.cli.acls:_to_remove",
        replace="if not (named or resources):",
        by="if False:",
        caught_by=_COMMANDS,
    ),
)

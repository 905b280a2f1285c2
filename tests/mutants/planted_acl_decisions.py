"""Planted bugs of access rules: what is decided, remembered, and read from files."""

from __future__ import annotations

from mutants.planted import Mutant

_INDEX = "tests/unit/coordinator/security/test_acl_index.py"
_AUTHORIZER = "tests/unit/coordinator/security/test_authorizer.py"
_FILE = "tests/unit/coordinator/security/test_acl_file.py"
_WATCHED = "tests/unit/coordinator/security/test_watched_file.py"
_PROPERTY = "tests/property/test_acls.py"
_DECIDE = "offsetd_coordinator.security.acl_index:AclIndex.decide"
_PATTERNS = "offsetd_coordinator.security.acl_index:_Patterns"
_REFRESH = "offsetd_coordinator.security.watched_file:WatchedFile.refresh"

ACL_DECISION_MUTANTS = (
    Mutant(
        name="without a rule everything is allowed",
        where="offsetd_coordinator.security.acl_index",
        replace="_NO_RULE: Final = Decision(False, None)",
        by="_NO_RULE: Final = Decision(True, None)",
        caught_by=_INDEX,
    ),
    Mutant(
        name="rules that deny are ignored",
        where=_DECIDE,
        replace="acl = rules.denied.find(name)",
        by="acl = None",
        caught_by=_PROPERTY,
    ),
    Mutant(
        name="a rule that denies wins only over rules of the same principal and host",
        where=_DECIDE,
        replace=(
            "        return Decision(False, acl)\n"
            "for rules in found:\n"
            "    acl = rules.allowed.find(name)"
        ),
        by="        return Decision(False, acl)\n    acl = rules.allowed.find(name)",
        caught_by=_INDEX,
    ),
    Mutant(
        name="a prefix counts within the name",
        where=f"{_PATTERNS}.find_prefix",
        replace=(
            "place = bisect_right(self.prefixes, name) - 1\n"
            "if place < 0 or not name.startswith(self.prefixes[place]):\n"
            "    return None\n"
            "return self._prefixed[self.prefixes[place]]"
        ),
        by=(
            "within = [each for each in self.prefixes if each in name]\n"
            "return self._prefixed[within[0]] if within else None"
        ),
        caught_by=_INDEX,
    ),
    Mutant(
        name="a longer prefix hides the shorter one",
        where=f"{_PATTERNS}.sort_prefixes",
        replace="if not self.prefixes or not prefix.startswith(self.prefixes[-1]):",
        by="if prefix:",
        caught_by=_PROPERTY,
    ),
    Mutant(
        name="a prefixed star is every name",
        where=f"{_PATTERNS}.add",
        replace="if acl.pattern is PatternType.PREFIXED:",
        by='if acl.pattern is PatternType.PREFIXED and acl.name != "*":',
        caught_by=_INDEX,
    ),
    Mutant(
        name="a denied operation denies what it implies",
        where="offsetd_coordinator.security.acl_index:_decided_operations",
        replace="if acl.permission is Permission.DENY:\n    return (acl.operation,)",
        by="",
        caught_by=_INDEX,
    ),
    Mutant(
        name="everything is allowed although a rule denies a name",
        where="offsetd_coordinator.security.acl_index:AclIndex.allows_all",
        replace="and not any(rules.denied for rules in found)",
        by="",
        caught_by=_INDEX,
    ),
    Mutant(
        name="what was decided by former rules is still said",
        where="offsetd_coordinator.security.authorizer:Authorizer.set_acls",
        replace="self._forget()",
        by="",
        caught_by=_AUTHORIZER,
    ),
    Mutant(
        name="decisions on one operation are remembered for all",
        where="offsetd_coordinator.security.authorizer:Authorizer.allows",
        replace="key = principal, host, id(operation), id(resource_type), name",
        by="key = principal, host, 0, id(resource_type), name",
        caught_by=_PROPERTY,
    ),
    Mutant(
        name="decisions are remembered without bound",
        where="offsetd_coordinator.security.authorizer:Authorizer._remember",
        replace="if size_bytes > CACHE_BYTES_MAX - self._known_bytes:\n    self._forget()",
        by="",
        caught_by=_AUTHORIZER,
    ),
    Mutant(
        name="the version of the rules stays the same",
        where="offsetd_coordinator.security.authorizer:Authorizer.set_acls",
        replace="self.version += 1",
        by="",
        caught_by=_AUTHORIZER,
    ),
    Mutant(
        name="a rule that denies is read as one that allows",
        where="offsetd_coordinator.security.acl_file",
        replace='"deny": Permission.DENY',
        by='"deny": Permission.ALLOW',
        caught_by=_PROPERTY,
    ),
    Mutant(
        name="a misspelt host is left out",
        where="offsetd_coordinator.security.acl_file:_table_acls",
        replace="if unknown := table.keys() - set(_KEYS):",
        by="if unknown := set[str]():",
        caught_by=_FILE,
    ),
    Mutant(
        name="a star in a name of a file is a character like others",
        where="offsetd_coordinator.security.acl_file:_resource",
        replace="if ANY in value and (value != ANY or pattern is PatternType.PREFIXED):",
        by="if not value:",
        caught_by=_FILE,
    ),
    Mutant(
        name="a file that is being written is taken by halves",
        where=_REFRESH,
        replace="return is_whole and self._accept(content)",
        by="return self._accept(content)",
        caught_by=_WATCHED,
    ),
    Mutant(
        name="a file that was written just after a look is never read again",
        where=_REFRESH,
        replace="self._settled = stamp if stamp == seen else None",
        by="self._settled = stamp",
        caught_by=_WATCHED,
    ),
    Mutant(
        name="a wrong content is told at each look",
        where="offsetd_coordinator.security.watched_file:WatchedFile._note_problem",
        replace="if self._told != (problem, content):",
        by="if problem:",
        caught_by=_WATCHED,
    ),
)

"""Planted bugs of access control: a call, a commit, a watcher or an answer that is not checked."""

from __future__ import annotations

from mutants.planted import Mutant

_MATRIX = "tests/security/test_rights_matrix.py"
_STREAMS = "tests/security/test_open_streams.py"
_PAGES = "tests/security/test_page_tokens.py"
_IDENTITIES = "tests/unit/coordinator/calls/test_identities.py"

ACCESS_MUTANTS = (
    Mutant(
        name="topics of the same length are taken for the same",
        where="offsetd_coordinator.messages.commit_access:_is_one_text",
        replace="bool((texts == texts[0]).all())",
        by="True",
        caught_by=f"{_STREAMS}::test_a_topic_is_refused_commit_by_commit",
    ),
    Mutant(
        name="an idle watch does not see that its token has expired",
        where="offsetd_coordinator.calls.identities:Identities.seconds_left",
        replace="None if expires_ms is None else (expires_ms - self._now_ms()) / 1000",
        by="None",
        caught_by=f"{_STREAMS}::test_an_idle_watch_ends_when_its_token_expires",
    ),
    Mutant(
        name="a change of all topics needs no right to them",
        where="offsetd_coordinator.messages.method_access:MethodAccess.check",
        replace="self.rights.is_of_all_topics and not names_topics",
        by="False",
        caught_by=_MATRIX,
    ),
    Mutant(
        name="the topics of a file are imported without a right",
        where="offsetd_coordinator.services.offset_imports:ImportService.import_offsets",
        replace="access.require(Operation.READ, ResourceType.TOPIC, topic.decode())",
        by="pass",
        caught_by=_MATRIX,
    ),
    Mutant(
        name="a client does not know that it may open a stream again with a new token",
        where="offsetd_coordinator.calls.access_control:Access.check_identity",
        replace="IdentityEnded(",
        by="AuthenticationFailed(",
        caught_by="tests/security/test_clients.py::test_a_watcher_goes_on_with_a_renewed_token",
    ),
    Mutant(
        name="the right of a stream's commits is asked once, and then known for ever",
        where="offsetd_coordinator.messages.commit_access:CommitAccess._forget_if_changed",
        replace="version != self._version",
        by="self._version < 0",
        caught_by=_STREAMS,
    ),
    Mutant(
        name="commits that a kernel reads together are not checked",
        where="offsetd_coordinator.grpc.commit_stream:CommitStream._submit",
        replace="{} if allowed is None else allowed.refusals(read)",
        by="{}",
        caught_by=_STREAMS,
    ),
    Mutant(
        name="a commit that comes alone is not checked",
        where="offsetd_coordinator.grpc.single_commits:submitted",
        replace="require is not None",
        by="False",
        caught_by=_MATRIX,
    ),
    Mutant(
        name="the topics of a stream's commits are not checked",
        where="offsetd_coordinator.messages.commit_access:CommitAccess.refusals",
        replace="not access.allows_all(_READ, _TOPIC)",
        by="False",
        caught_by=_STREAMS,
    ),
    Mutant(
        name="the topics of a commit are not checked",
        where="offsetd_coordinator.messages.commit_access:require_commit",
        replace="not access.allows_all(_READ, _TOPIC)",
        by="False",
        caught_by=_MATRIX,
    ),
    Mutant(
        name="a watcher's right is asked when it begins, and never again",
        where="offsetd_coordinator.grpc.watcher_rights:WatcherRights.check",
        replace="version != self._rules_version",
        by="self._rules_version < 0",
        caught_by=_STREAMS,
    ),
    Mutant(
        name="a stream goes on when its token is revoked",
        where="offsetd_coordinator.calls.identities:Identities.is_valid",
        replace="self._tokens.current.holds(identity.token_id)",
        by="True",
        caught_by=_STREAMS,
    ),
    Mutant(
        name="a header names the caller",
        where="offsetd_coordinator.calls.identities:Identities._known",
        replace="if self._principal_of is None:\n    return _NOBODY",
        by=(
            "if self._principal_of is None:\n"
            "    metadata = dict(context.invocation_metadata() or ())\n"
            "    return Identity(metadata.get('principal', ANONYMOUS))"
        ),
        caught_by=_MATRIX,
    ),
    Mutant(
        name="a bad token falls back on the certificate",
        where="offsetd_coordinator.calls.identities:Identities._of_token",
        replace='raise AuthenticationFailed("the token is not valid")',
        by="return _NOBODY",
        caught_by=_IDENTITIES,
    ),
    Mutant(
        name="the groups of a file are imported without a right",
        where="offsetd_coordinator.services.offset_imports:ImportService.import_offsets",
        replace="(access := current_call.access()) is not None",
        by="False",
        caught_by=_MATRIX,
    ),
    Mutant(
        name="a fetch needs no right",
        where="offsetd_coordinator.services.offset_calls:OffsetService.fetch_offsets",
        replace="(access := current_call.access()) is not None",
        by="False",
        caught_by=_MATRIX,
    ),
    Mutant(
        name="an answer shows all topics",
        where="offsetd_coordinator.messages.method_access:MethodAccess.visible",
        replace="not hidden",
        by="True",
        caught_by=_MATRIX,
    ),
    Mutant(
        name="a file of all groups has those that the caller may not describe",
        where="offsetd_coordinator.services.offset_exports:_may_describe",
        replace="access is None or access.allows(Operation.DESCRIBE, resource_type, name.decode())",
        by="True",
        caught_by=_MATRIX,
    ),
    Mutant(
        name="the audit log shows the changes of all groups",
        where="offsetd_coordinator.services.audit_admin:_may_see",
        replace="access is None",
        by="True",
        caught_by=_MATRIX,
    ),
    Mutant(
        name="a stream of answers begins without a check of its request",
        where="offsetd_coordinator.grpc.streamed_calls:answering",
        replace="method_access is not None",
        by="False",
        caught_by=_MATRIX,
    ),
    Mutant(
        name="the token of a list names a group that is hidden",
        where="offsetd_coordinator.services.group_calls:_matching",
        replace="access = _limited_access(ResourceType.GROUP)",
        by="access = None",
        caught_by=_PAGES,
    ),
    Mutant(
        name="the token of a group's offsets names a topic that is hidden",
        where="offsetd_coordinator.services.group_calls:_read_visible_page",
        replace="access is None:",
        by="access is not None:",
        caught_by=_PAGES,
    ),
)

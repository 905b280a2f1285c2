# Made from aio/acls.py by .ci/sync_from_aio: change that, then run `make sync`.
"""The calls about access rules."""

from collections.abc import Iterable

from offsetd_clients.acl_values import (
    Acl,
    AclFilter,
    AclListing,
    AclOperation,
    AclVerdict,
    ChangedAcls,
    ResourceType,
)
from offsetd_clients.messages import acl_messages
from offsetd_clients.sync.servers import Calls, new_id

_ALL = AclFilter()


class AclCalls(Calls):
    """The calls of a client that say what callers may do."""

    def list_acls(self, wanted: AclFilter = _ALL) -> AclListing:
        """The rules that agree with a filter. Without a filter, it returns all."""
        request = acl_messages.list_acls_request(wanted)
        pages = [self._call("ListAcls", request)]
        while pages[-1].next_page_token:
            request.page_token = pages[-1].next_page_token
            pages.append(self._call("ListAcls", request))
        return acl_messages.listed_acls(pages)

    def add_acls(
        self,
        acls: Iterable[Acl],
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> ChangedAcls:
        """Adds rules: all or none. They count once the call returns.

        A rule that exists already is no error. Raises `PolicyViolation` if the server's rules come
        from a file.
        """
        request = acl_messages.add_acls_request(
            acls, request_id=request_id or new_id(), validate_only=validate_only, reason=reason
        )
        return acl_messages.added_acls(self._call("AddAcls", request))

    def remove_acls(
        self,
        acls: Iterable[Acl | AclFilter],
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> ChangedAcls:
        """Removes rules, and those that agree with a filter: all or none.

        A rule that does not exist is no error. Raises `PolicyViolation` if the server's rules come
        from a file.
        """
        request = acl_messages.remove_acls_request(
            acls, request_id=request_id or new_id(), validate_only=validate_only, reason=reason
        )
        return acl_messages.removed_acls(self._call("RemoveAcls", request))

    def test_acl(
        self,
        principal: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str = "",
        *,
        host: str = "",
    ) -> AclVerdict:
        """Whether a caller may do something, and by which rule.

        `host` is the caller's IP address. If it is empty, only rules for all hosts count. `name`
        may be empty if the resource is the cluster.
        """
        request = acl_messages.test_acl_request(principal, operation, resource_type, name, host)
        return acl_messages.verdict(self._call("TestAcl", request))

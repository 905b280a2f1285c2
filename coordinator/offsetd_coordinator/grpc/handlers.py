"""The gRPC services: their names, methods and handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from offsetd.v1 import (
    acl_service_pb2,
    admin_service_pb2,
    backup_service_pb2,
    group_service_pb2,
    offset_service_pb2,
)

from offsetd_coordinator.grpc import streamed_calls, unary_calls
from offsetd_coordinator.grpc.commit_stream import stream_commits
from offsetd_coordinator.grpc.joined_calls import JoinedCalls
from offsetd_coordinator.grpc.joined_commits import JoinedCommits
from offsetd_coordinator.grpc.joined_fetches import JoinedFetches
from offsetd_coordinator.grpc.watch_stream import WatchService
from offsetd_coordinator.messages.commit_parser import CommitParser
from offsetd_coordinator.messages.lease_validation import TtlBounds
from offsetd_coordinator.messages.method_access import MethodAccess
from offsetd_coordinator.security.required_rights import METHOD_RIGHTS
from offsetd_coordinator.services.acl_calls import AclCalls
from offsetd_coordinator.services.audit_admin import AuditAdmin
from offsetd_coordinator.services.backup_calls import BackupService
from offsetd_coordinator.services.cluster_calls import ClusterService
from offsetd_coordinator.services.config_admin import ConfigAdmin
from offsetd_coordinator.services.fetch_bounds import BoundsService
from offsetd_coordinator.services.group_calls import GroupService
from offsetd_coordinator.services.group_settings_calls import GroupSettingsService
from offsetd_coordinator.services.history_calls import HistoryService
from offsetd_coordinator.services.kafka_bounds import KafkaBounds
from offsetd_coordinator.services.log_admin import LogAdmin
from offsetd_coordinator.services.member_removal import MemberRemoval
from offsetd_coordinator.services.membership_calls import MembershipService
from offsetd_coordinator.services.offset_calls import OffsetService
from offsetd_coordinator.services.offset_exports import ExportService
from offsetd_coordinator.services.offset_imports import ImportService
from offsetd_coordinator.services.reset_calls import ResetCalls
from offsetd_coordinator.services.server_admin import AdminService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import grpc
    import grpc.aio

    from offsetd_coordinator.calls.access_control import AccessControl
    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.configuration.server_settings import Settings
    from offsetd_coordinator.counters import CallCounters
    from offsetd_coordinator.grpc.call_tracing import CallTracing
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.quotas.caller_quotas import Quotas
    from offsetd_coordinator.security.authorizer import Authorizer

    AccessOf = Callable[[str], MethodAccess | None]
    Handlers = Mapping[str, grpc.RpcMethodHandler[bytes, bytes]]

OFFSET_SERVICE: Final = offset_service_pb2.DESCRIPTOR.services_by_name["OffsetService"].full_name
GROUP_SERVICE: Final = group_service_pb2.DESCRIPTOR.services_by_name["GroupService"].full_name
ADMIN_SERVICE: Final = admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name
ACL_SERVICE: Final = acl_service_pb2.DESCRIPTOR.services_by_name["AclService"].full_name
BACKUP_SERVICE: Final = backup_service_pb2.DESCRIPTOR.services_by_name["BackupService"].full_name
SERVICES: Final = (OFFSET_SERVICE, GROUP_SERVICE, ADMIN_SERVICE, ACL_SERVICE, BACKUP_SERVICE)


def generic_handlers(
    node: Node,
    admission: Admission,
    settings: Settings,
    counters: CallCounters,
    *,
    authorizer: Authorizer,
    control: AccessControl | None = None,
    tracing: CallTracing | None = None,
) -> tuple[grpc.GenericRpcHandler, ...]:
    """The handlers of every method of every service; `counters` counts their calls.

    `authorizer` has the rules, also while they are not in force. Without `control`, everybody may
    call every method. Without `tracing`, calls have no spans.
    """
    services = _services(node, admission, settings, counters, authorizer, control, tracing)
    if tracing is not None:
        services = {name: tracing.traced(name, each) for name, each in services.items()}
    return tuple(unary_calls.service_handler(name, each) for name, each in services.items())


def _services(
    node: Node,
    admission: Admission,
    settings: Settings,
    counters: CallCounters,
    authorizer: Authorizer,
    control: AccessControl | None,
    tracing: CallTracing | None,
) -> dict[str, Handlers]:
    """The methods of each service, the most frequent first."""
    access_of = _access_of(control)
    history = HistoryService(node)
    servers = settings.kafka_bootstrap_servers
    kafka = KafkaBounds(servers) if servers else None
    offset_admin = ResetCalls(node, kafka, metadata_units_max=settings.offset_metadata_max_bytes)
    unary = _unary_handlers(node, admission, settings, counters, access_of)
    return {
        OFFSET_SERVICE: {
            **_offset_methods(node, admission, settings, counters, access_of, unary, tracing),
            "ResetOffsets": unary(offset_admin.reset_offsets),
            "FetchBounds": unary(BoundsService(node, kafka).fetch_bounds),
            "ListOffsetHistory": unary(history.list_offset_history),
        },
        GROUP_SERVICE: {
            "CloneGroup": unary(offset_admin.clone_group),
            "RestoreGroup": unary(history.restore_group),
            **_group_methods(node, settings, unary),
        },
        ADMIN_SERVICE: {
            **_admin_methods(node, unary, None if control is None else control.quotas),
            **_file_methods(node, admission, settings, counters, access_of),
        },
        ACL_SERVICE: _acl_methods(node, authorizer, settings, unary),
        BACKUP_SERVICE: _backup_methods(node, admission, settings, counters, access_of),
    }


def _access_of(control: AccessControl | None) -> AccessOf:
    """The doors of methods. A method without a row in the table of rights is not served."""

    def access_of(method: str) -> MethodAccess | None:
        assert method in METHOD_RIGHTS, f"{method} has no row in the table of required rights"
        return None if control is None else MethodAccess(control, method)

    return access_of


def _unary_handlers(
    node: Node,
    admission: Admission,
    settings: Settings,
    counters: CallCounters,
    access_of: AccessOf,
) -> Callable[[unary_calls.UnaryAnswer], grpc.RpcMethodHandler[bytes, bytes]]:
    def unary(answer: unary_calls.UnaryAnswer) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = method_name(answer.__name__)
        return unary_calls.unary(
            answer,
            admission,
            counters.method(method),
            load_ended=node.load_ended,
            request_bytes_max=settings.socket_request_max_bytes,
            method_access=access_of(method),
        )

    return unary


def _offset_methods(
    node: Node,
    admission: Admission,
    settings: Settings,
    counters: CallCounters,
    access_of: AccessOf,
    unary: Callable[[unary_calls.UnaryAnswer], grpc.RpcMethodHandler[bytes, bytes]],
    tracing: CallTracing | None,
) -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
    parser = CommitParser(
        metadata_units_max=settings.offset_metadata_max_bytes,
        message_bytes_max=settings.log.message_bytes_max,
    )
    offsets = OffsetService(node, parser)
    watch = WatchService(
        node,
        admission,
        counters,
        request_bytes_max=settings.socket_request_max_bytes,
        method_access=access_of("WatchOffsets"),
    )
    commit_handler, fetch_handler = unary(offsets.commit_offsets), unary(offsets.fetch_offsets)

    def joined(method: str) -> JoinedCalls:
        return JoinedCalls(
            method,
            admission,
            counters.method(method),
            request_bytes_max=settings.socket_request_max_bytes,
            method_access=access_of(method),
        )

    # `offsetd_wire` looks for `join`; grpcio does not.
    commits = JoinedCommits(node, parser, joined("CommitOffsets"))
    fetches = JoinedFetches(node, joined("FetchOffsets"))
    commit_handler.join = commits.take  # type: ignore[attr-defined]
    fetch_handler.join = fetches.take  # type: ignore[attr-defined]
    return {
        "CommitOffsets": commit_handler,
        "StreamCommits": stream_commits(
            node,
            admission,
            parser,
            counters,
            unanswered_max=settings.stream_unanswered_commits_max,
            request_bytes_max=settings.socket_request_max_bytes,
            method_access=access_of("StreamCommits"),
            tracing=tracing,
        ),
        "FetchOffsets": fetch_handler,
        "DeleteOffsets": unary(offsets.delete_offsets),
        "WatchOffsets": watch.handler(),
    }


def _group_methods(
    node: Node,
    settings: Settings,
    unary: Callable[[unary_calls.UnaryAnswer], grpc.RpcMethodHandler[bytes, bytes]],
) -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
    groups, membership = GroupService(node), MembershipService(node)
    ttl_bounds = TtlBounds(
        ttl_ms_min=settings.lease_min_ttl_ms, ttl_ms_max=settings.lease_max_ttl_ms
    )
    group_settings = GroupSettingsService(node, ttl_bounds)
    return {
        "ListGroups": unary(groups.list_groups),
        "GetGroup": unary(groups.get_group),
        "DeleteGroup": unary(groups.delete_group),
        "JoinGroup": unary(membership.join_group),
        "SyncGroup": unary(membership.sync_group),
        "Heartbeat": unary(membership.heartbeat),
        "LeaveGroup": unary(membership.leave_group),
        "RemoveMembers": unary(MemberRemoval(node).remove_members),
        "UpdateGroup": unary(group_settings.update_group),
        "AcquireGroup": unary(group_settings.acquire_group),
        "RenewGroup": unary(group_settings.renew_group),
        "ReleaseGroup": unary(group_settings.release_group),
    }


def _file_methods(
    node: Node,
    admission: Admission,
    settings: Settings,
    counters: CallCounters,
    access_of: AccessOf,
) -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
    exports = ExportService(node)
    imports = ImportService(node, metadata_units_max=settings.offset_metadata_max_bytes)
    request_bytes_max = settings.socket_request_max_bytes
    return {
        "ExportOffsets": streamed_calls.answering(
            exports.export_offsets,
            admission,
            counters.method("ExportOffsets"),
            load_ended=node.load_ended,
            request_bytes_max=request_bytes_max,
            method_access=access_of("ExportOffsets"),
        ),
        "ImportOffsets": streamed_calls.asking(
            imports.import_offsets,
            admission,
            counters.method("ImportOffsets"),
            load_ended=node.load_ended,
            request_bytes_max=request_bytes_max,
            method_access=access_of("ImportOffsets"),
        ),
    }


def _admin_methods(
    node: Node,
    unary: Callable[[unary_calls.UnaryAnswer], grpc.RpcMethodHandler[bytes, bytes]],
    quotas: Quotas | None,
) -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
    admin = AdminService(node, quotas)
    log_admin, config_admin = LogAdmin(node), ConfigAdmin(node)
    return {
        "GetServerInfo": unary(admin.get_server_info),
        "DescribeCluster": unary(ClusterService(node).describe_cluster),
        "FindCoordinator": unary(admin.find_coordinator),
        "DescribeQuotas": unary(admin.describe_quotas),
        "DescribeLog": unary(log_admin.describe_log),
        "CompactLog": unary(log_admin.compact_log),
        "RetryPartition": unary(log_admin.retry_partition),
        "DeleteRecords": unary(log_admin.delete_records),
        "DescribeConfig": unary(config_admin.describe_config),
        "UpdateConfig": unary(config_admin.update_config),
        "ListAuditEvents": unary(AuditAdmin(node).list_audit_events),
    }


def _acl_methods(
    node: Node,
    authorizer: Authorizer,
    settings: Settings,
    unary: Callable[[unary_calls.UnaryAnswer], grpc.RpcMethodHandler[bytes, bytes]],
) -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
    acls = AclCalls(
        node,
        authorizer,
        in_force=settings.has_rules,
        from_file=bool(settings.security_acl_file),
    )
    return {
        "ListAcls": unary(acls.list_acls),
        "AddAcls": unary(acls.add_acls),
        "RemoveAcls": unary(acls.remove_acls),
        "TestAcl": unary(acls.test_acl),
    }


def _backup_methods(
    node: Node,
    admission: Admission,
    settings: Settings,
    counters: CallCounters,
    access_of: AccessOf,
) -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
    return {
        "StreamBackup": streamed_calls.answering(
            BackupService(node).stream_backup,
            admission,
            counters.method("StreamBackup"),
            load_ended=node.load_ended,
            request_bytes_max=settings.socket_request_max_bytes,
            method_access=access_of("StreamBackup"),
        )
    }


def method_name(function_name: str) -> str:
    """The contract's name of the method of a function: `CommitOffsets` for `commit_offsets`."""
    return "".join(word.capitalize() for word in function_name.split("_"))


class GenericOnly:
    """A stand-in server for generated services that registers only their generic handlers.

    For each registered method, grpc.aio waits with a future of its own, and renews all of them when
    a call arrives.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, generic_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Registers handlers that find each call's method by name."""
        self._server.add_generic_rpc_handlers(tuple(generic_handlers))

    def add_registered_method_handlers(self, service: str, methods: Any) -> None:
        """Registers nothing: the generic handlers hold the same methods."""


def add_reflection(server: grpc.aio.Server) -> None:
    """Lets clients such as grpcurl read the definitions of the services."""
    # Reflection loads half of all modules, so import it only if reflection is on.
    from grpc_health.v1 import health_pb2  # noqa: PLC0415
    from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc  # noqa: PLC0415

    health_service = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
        reflection.aio.ReflectionServicer((*SERVICES, health_service, reflection.SERVICE_NAME)),
        GenericOnly(server),
    )

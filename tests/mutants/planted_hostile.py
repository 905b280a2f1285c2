"""Planted bugs in what holds against callers and peers that mean no good."""

from __future__ import annotations

from mutants.planted import Mutant

HOSTILE_MUTANTS = (
    Mutant(
        name="that new connections are refused is not logged",
        where="offsetd_coordinator.network.connection_guard:ConnectionGuard._tell_if_full",
        replace="connections < limits.accepted_max",
        by="connections <= limits.accepted_max",
        caught_by="tests/unit/coordinator/network/test_connection_guard.py",
    ),
    Mutant(
        name="a time is converted by protobuf, which raises errors of its own",
        where="offsetd_coordinator.messages.timestamps:read_time_ms",
        replace="time_ms = time.seconds * 1000 + time.nanos // 1_000_000",
        by="time_ms = time.ToMilliseconds()",
        caught_by="tests/fault/test_extreme_values.py",
    ),
    Mutant(
        name="gRPC's core writes into the log what peers say",
        where="offsetd_clients:",
        replace='("GRPC_VERBOSITY", "NONE")',
        by='("GRPC_VERBOSITY", "INFO")',
        caught_by="tests/fault/test_bad_input.py",
    ),
    Mutant(
        name="names in lines for people are as they came",
        where="offsetd_coordinator.observability.log_setup:_on_one_line",
        replace="event[name] = _escaped(str(value))",
        by="event[name] = str(value)",
        caught_by="tests/unit/coordinator/observability/test_log_setup.py",
    ),
    Mutant(
        name="what repeats in a request is not counted before it is parsed",
        where="offsetd_coordinator.messages.field_counts:check_encoded",
        replace="if place == fields_max:",
        by="if place < 0:",
        caught_by="tests/unit/coordinator/messages/test_large_requests.py",
    ),
    Mutant(
        name="a request may name members without a bound",
        where="offsetd_coordinator.messages.field_counts:",
        replace='"LeaveGroupRequest": {"members": NAMES_MAX},',
        by="",
        caught_by="tests/unit/coordinator/messages/test_large_requests.py",
    ),
    Mutant(
        name="the members of a request leave in one turn",
        where="offsetd_coordinator.services.membership_calls:leave_in_turns",
        replace="await turns.spend(_ITEMS_PER_LEFT_MEMBER * len(some))",
        by="",
        caught_by="tests/unit/coordinator/messages/test_large_requests.py",
    ),
    Mutant(
        name="what a damaged audit log holds back is not told",
        where="offsetd_coordinator.background.expirer:Expirer.held",
        replace="return Held(hold=Hold.AUDIT_DAMAGED)",
        by="pass",
        caught_by="tests/unit/coordinator/background/test_expirer.py",
    ),
    Mutant(
        name="a disk without room is no problem of the server",
        where="offsetd_coordinator.node:Node.problems",
        replace="if runtime.disk.is_low:",
        by="if False:",
        caught_by="tests/unit/coordinator/services/test_server_admin.py",
    ),
    Mutant(
        name="settings are taken back while their log is damaged",
        where="offsetd_coordinator.administration.administration:Administration.update_config",
        replace="if damage is not None:",
        by="if False:",
        caught_by="tests/fault/test_rotten_settings.py",
    ),
    Mutant(
        name="groups that cannot be listed are left out without a word",
        where="offsetd_clients.cli.groups.group_commands:_register_list.list_groups",
        replace="    on_unreachable=told_left_out(terminal),\n)",
        by=")",
        caught_by="tests/unit/clients/cli/arguments/test_group_choice.py",
    ),
)

"""Planted bugs in what holds against callers and peers that mean no good."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"

HOSTILE_MUTANTS = (
    Mutant(
        name="a time is converted by protobuf, which raises errors of its own",
        file=f"{_COORDINATOR}/messages/timestamps.py",
        replace="    time_ms = time.seconds * 1000 + time.nanos // 1_000_000\n",
        by="    time_ms = time.ToMilliseconds()\n",
        caught_by="tests/fault/test_extreme_values.py",
    ),
    Mutant(
        name="gRPC's core writes into the log what peers say",
        file="clients/offsetd_clients/__init__.py",
        replace='("GRPC_VERBOSITY", "NONE")',
        by='("GRPC_VERBOSITY", "INFO")',
        caught_by="tests/fault/test_bad_input.py",
    ),
    Mutant(
        name="names in lines for people are as they came",
        file=f"{_COORDINATOR}/observability/log_setup.py",
        replace="            event[name] = _escaped(str(value))\n",
        by="            event[name] = str(value)\n",
        caught_by="tests/unit/coordinator/test_log_setup.py",
    ),
    Mutant(
        name="what repeats in a request is not counted before it is parsed",
        file=f"{_COORDINATOR}/messages/field_counts.py",
        replace="        if place == fields_max:\n",
        by="        if place < 0:\n",
        caught_by="tests/unit/coordinator/test_large_requests.py",
    ),
    Mutant(
        name="a request may name members without a bound",
        file=f"{_COORDINATOR}/messages/field_counts.py",
        replace='    "LeaveGroupRequest": {"members": NAMES_MAX},\n',
        by="",
        caught_by="tests/unit/coordinator/test_large_requests.py",
    ),
    Mutant(
        name="the members of a request leave in one turn",
        file=f"{_COORDINATOR}/services/membership_calls.py",
        replace="        await turns.spend(_ITEMS_PER_LEFT_MEMBER * len(some))\n",
        by="",
        caught_by="tests/unit/coordinator/test_large_requests.py",
    ),
    Mutant(
        name="what a damaged audit log holds back is not told",
        file=f"{_COORDINATOR}/background/expirer.py",
        replace="            return Held(hold=Hold.AUDIT_DAMAGED)\n",
        by="            pass\n",
        caught_by="tests/unit/coordinator/test_expirer.py",
    ),
    Mutant(
        name="a disk without room is no problem of the server",
        file=f"{_COORDINATOR}/node.py",
        replace="        if runtime.disk.is_low:\n",
        by="        if False:\n",
        caught_by="tests/unit/coordinator/test_service_admin.py",
    ),
    Mutant(
        name="settings are taken back while their log is damaged",
        file=f"{_COORDINATOR}/administration/administration.py",
        replace="        if damage is not None:  # Also for an update that would write nothing.\n",
        by="        if False:\n",
        caught_by="tests/fault/test_rotten_settings.py",
    ),
    Mutant(
        name="groups that cannot be listed are left out without a word",
        file="clients/offsetd_clients/cli/groups/group_commands.py",
        replace="                on_unreachable=told_left_out(terminal),\n",
        by="",
        caught_by="tests/unit/clients/test_cli_group_choice.py",
    ),
)

"""Planted bugs of administrative changes, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_CONFIG_ADMIN = "tests/unit/coordinator/test_service_config_admin.py"
_LOG_ADMIN = "tests/unit/coordinator/test_service_log_admin.py"
_CONFIG_SHARD = "tests/unit/coordinator/test_config_shard.py"

ADMINISTRATION_MUTANTS = (
    Mutant(
        name="a setting acts before it is durable",
        file=f"{_COORDINATOR}/administration/administration.py",
        replace="        await self._until_durable(ticket)\n        try:\n",
        by="        try:\n",
        caught_by=f"{_CONFIG_ADMIN}::test_nothing_acts_by_a_setting_before_it_is_durable",
    ),
    Mutant(
        name="a change that its caller no longer waits for is given up",
        file=f"{_COORDINATOR}/administration/administration.py",
        replace="            await asyncio.shield(self._applying)\n",
        by="            await self._applying\n",
        caught_by=(
            f"{_CONFIG_ADMIN}"
            "::test_a_change_that_is_being_applied_is_not_overtaken_when_its_caller_goes"
        ),
    ),
    Mutant(
        name="a change leaves no record in the audit log",
        file=f"{_COORDINATOR}/administration/administration.py",
        replace="            self._append_event(event)\n            self._config_ticket",
        by="            self._config_ticket",
        caught_by=_CONFIG_ADMIN,
    ),
    Mutant(
        name="the time index of the settings has another time than their records",
        file=f"{_COORDINATOR}/runtime/runtime.py",
        replace="            max_timestamp_ms=header.max_timestamp_ms,\n",
        by="            max_timestamp_ms=self._clock.now_ms(),\n",
        caught_by=(
            f"{_CONFIG_ADMIN}"
            "::test_indexes_of_settings_and_audit_log_have_the_times_of_their_records"
        ),
    ),
    Mutant(
        name="a retry of a change is applied again",
        file=f"{_COORDINATOR}/configuration/config_shard.py",
        replace="            if known is not None and known[1] >= now_ms",
        by="            if known is not None and known[1] < 0 and known[1] >= now_ms",
        caught_by=_CONFIG_SHARD,
    ),
    Mutant(
        name="a setting of a newer version is lost with the next change",
        file=f"{_COORDINATOR}/configuration/config_shard.py",
        replace="(ConfigKey(topic, name) not in problems or name in request.removals)",
        by="True",
        caught_by=_CONFIG_SHARD,
    ),
    Mutant(
        name="settings are not replayed at a start",
        file=f"{_COORDINATOR}/administration/internal_topics.py",
        replace="                shard.replay(buffer[:end].tobytes())\n",
        by="                pass\n",
        caught_by="tests/unit/coordinator/test_own_topics.py",
    ),
    Mutant(
        name="a retry of a deletion to the end deletes what has come since",
        file=f"{_COORDINATOR}/administration/audit.py",
        replace="        known = self._known.get((method, request_id)) if request_id else None\n",
        by="        known = None\n",
        caught_by=f"{_LOG_ADMIN}::test_a_retry_of_a_deletion_to_the_end_deletes_no_more",
    ),
    Mutant(
        name="a deletion that its caller no longer waits for is given up",
        file=f"{_COORDINATOR}/services/log_admin.py",
        replace="await asyncio.shield(asyncio.ensure_future(self._delete(log, event)))",
        by="await self._delete(log, event)",
        caught_by=f"{_LOG_ADMIN}::test_a_deletion_goes_on_when_its_caller_has_gone",
    ),
    Mutant(
        name="a refused folder keeps the names that were given back",
        file="storage/offsetd_storage/folder/stray_folders.py",
        replace="            files.rename(folder, stray)\n",
        by="            pass\n",
        caught_by="tests/unit/storage/test_strays.py",
    ),
    Mutant(
        name="a name is exported that comes back without its start",
        file="storage/offsetd_storage/offsets_topic/offset_files.py",
        replace="    if name.startswith(_BYTE_ORDER_MARK):\n",
        by="    if False:\n",
        caught_by="tests/unit/storage/offsets_topic/test_offset_files.py",
    ),
)

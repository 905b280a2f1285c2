"""Planted bugs of administrative changes, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_CONFIG_ADMIN = "tests/unit/coordinator/services/test_config_admin.py"
_LOG_ADMIN = "tests/unit/coordinator/services/test_log_admin.py"
_CONFIG_SHARD = "tests/unit/coordinator/configuration/test_config_state.py"

ADMINISTRATION_MUTANTS = (
    Mutant(
        name="a setting acts before it is durable",
        where="offsetd_coordinator.administration.administration:Administration._apply_in_turn",
        replace="await until_durable(self._log, ticket)\ntry:",
        by="try:",
        caught_by=f"{_CONFIG_ADMIN}::test_nothing_acts_by_a_setting_before_it_is_durable",
    ),
    Mutant(
        name="a change that its caller no longer waits for is given up",
        where="offsetd_coordinator.administration.administration:Administration._until_applied",
        replace="await asyncio.shield(self._applying)",
        by="await self._applying",
        caught_by=(
            f"{_CONFIG_ADMIN}"
            "::test_a_change_that_is_being_applied_is_not_overtaken_when_its_caller_goes"
        ),
    ),
    Mutant(
        name="a change leaves no record in the audit log",
        where="offsetd_coordinator.administration.administration:Administration.update_config",
        replace="self._append_event(event)\nself._config_ticket",
        by="self._config_ticket",
        caught_by=_CONFIG_ADMIN,
    ),
    Mutant(
        name="the time index of the settings has another time than their records",
        where="offsetd_coordinator.runtime.store_commit_log:StoreCommitLog.append_internal",
        replace="max_timestamp_ms=header.max_timestamp_ms",
        by="max_timestamp_ms=self._store._clock.now_ms()",
        caught_by=(
            f"{_CONFIG_ADMIN}"
            "::test_indexes_of_settings_and_audit_log_have_the_times_of_their_records"
        ),
    ),
    Mutant(
        name="a retry of a change is applied again",
        where="offsetd_coordinator.configuration.config_state:ConfigState.decide",
        replace="if last_offset is not None:",
        by="if last_offset is not None and last_offset < 0:",
        caught_by=_CONFIG_SHARD,
    ),
    Mutant(
        name="a setting of a newer version is lost with the next change",
        where="offsetd_coordinator.configuration.config_state:ConfigState._records",
        replace="(ConfigKey(topic, name) not in problems or name in request.removals)",
        by="True",
        caught_by=_CONFIG_SHARD,
    ),
    Mutant(
        name="settings are not replayed at a start",
        where="offsetd_coordinator.administration.internal_topics:InternalTopics.load",
        replace="shard.replay(buffer[:end].tobytes())",
        by="pass",
        caught_by="tests/unit/coordinator/administration/test_internal_topics.py",
    ),
    Mutant(
        name="a retry of a deletion to the end deletes what has come since",
        where="offsetd_coordinator.administration.audit:AuditLog.find",
        replace="return self._known.find((method, request_id), now_ms) if request_id else None",
        by="return None",
        caught_by=f"{_LOG_ADMIN}::test_a_retry_of_a_deletion_to_the_end_deletes_no_more",
    ),
    Mutant(
        name="a deletion that its caller no longer waits for is given up",
        where="offsetd_coordinator.services.log_admin:LogAdmin.delete_records",
        replace="await asyncio.shield(asyncio.ensure_future(self._delete(log, event)))",
        by="await self._delete(log, event)",
        caught_by=f"{_LOG_ADMIN}::test_a_deletion_goes_on_when_its_caller_has_gone",
    ),
    Mutant(
        name="a refused folder keeps the names that were given back",
        where="offsetd_storage.folder.stray_folders:strays_taken_back",
        replace="files.rename(folder, stray)",
        by="pass",
        caught_by="tests/unit/storage/folder/test_stray_folders.py",
    ),
    Mutant(
        name="a name is exported that comes back without its start",
        where="offsetd_storage.offsets_topic.offset_file_formats:_refuse_marked",
        replace="if name.startswith(_BYTE_ORDER_MARK):",
        by="if False:",
        caught_by="tests/unit/storage/offsets_topic/test_offset_file_formats.py",
    ),
)

"""Planted bugs of migrations."""

from __future__ import annotations

from mutants.planted import Mutant

_MIGRATION = "clients/offsetd_clients/migration"
_ZOOKEEPER = f"{_MIGRATION}/zookeeper"
_TESTS = "tests/unit/clients/migration"
_ZOOKEEPER_TESTS = f"{_TESTS}/zookeeper"
_IMPORTS = "tests/unit/coordinator/test_service_imports.py"

MIGRATION_MUTANTS = (
    Mutant(
        name="a group is cut over without what is deleted here, and nobody is asked",
        file=f"{_ZOOKEEPER}/cutover.py",
        replace="if moves.absent and self.options.absent is None:",
        by="if moves.absent and self.options.execute is None:",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_cutover.py",
    ),
    Mutant(
        name="a group that a mirror stores again has lost its retention",
        file=f"{_MIGRATION}/own_writes.py",
        replace="    if is_first:\n",
        by="    if False:\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_mirror_events.py",
    ),
    Mutant(
        name="another chroot than the plan's is taken for its own",
        file=f"{_ZOOKEEPER}/source.py",
        replace="    if planned != named:\n",
        by="    if planned is named:\n",
        caught_by=(
            "tests/interop/test_zookeeper_mirror.py"
            "::test_another_zookeeper_deletes_and_marks_nothing"
        ),
    ),
    Mutant(
        name="the mirror takes the larger offset",
        file=f"{_ZOOKEEPER}/moves.py",
        replace="    if own is not None and stored.revision == own.revision:\n",
        by="    if found.offset > stored.offset:\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_mirror.py",
    ),
    Mutant(
        name="who wrote last is known by times, and not by revisions",
        file=f"{_ZOOKEEPER}/moves.py",
        replace="    if own is not None and stored.revision == own.revision:\n",
        by="    if _is_later(found, stored):\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_cutover.py",
    ),
    Mutant(
        name="the mirror stores over a later commit of somebody here",
        file=f"{_ZOOKEEPER}/moves.py",
        replace="    return Move.OVERWRITE if is_written_there and _is_later(found, stored) else",
        by="    return Move.OVERWRITE if True else",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_mirror.py",
    ),
    Mutant(
        name="what a mirror has stored is forgotten when it ends",
        file=f"{_MIGRATION}/journal.py",
        replace="            self.followed.note(document)\n            return\n",
        by="            return\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_mirror.py",
    ),
    Mutant(
        name="what a kill has cut off is forgotten with the next put",
        file=f"{_MIGRATION}/followed_writes.py",
        replace="            group.cut_off = [*group.cut_off, *before]\n",
        by="            del before\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_mirror.py",
    ),
    Mutant(
        name="what cannot be read is taken for deleted",
        file=f"{_ZOOKEEPER}/moves.py",
        replace="    if found.problems:\n",
        by="    if False:\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_mirror.py",
    ),
    Mutant(
        name="a rollback makes again what was deleted",
        file=f"{_ZOOKEEPER}/rollback.py",
        replace="        if self.options.recreate_deleted:\n",
        by="        if True:\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_cutover.py",
    ),
    Mutant(
        name="a deletion of what is in use here is followed",
        file=f"{_ZOOKEEPER}/moves.py",
        replace="stored[where].revision != own[where].revision],\n",
        by="False],\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_mirror.py",
    ),
    Mutant(
        name="a group without a mark is taken for rolled back",
        file=f"{_ZOOKEEPER}/rollback.py",
        replace='            problem = "its mark is gone: cut it over again, and it is set"\n',
        by="            return outcome_of(group, Outcome.ALREADY)\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_rollback.py",
    ),
    Mutant(
        name="a mark that may not be read is taken for none",
        file=f"{_ZOOKEEPER}/connection.py",
        replace="            elif not is_absent(node):\n",
        by="            elif False:\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_rollback.py",
    ),
    Mutant(
        name="a group that was cut over is mirrored over what is stored here",
        file=f"{_ZOOKEEPER}/mirror.py",
        replace="        if self._marks.read(self._tree, [source]):\n",
        by="        if False:\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_mirror.py",
    ),
    Mutant(
        name="a retention of a group's own is overwritten",
        file=f"{_MIGRATION}/run.py",
        replace="bool(group.offsets) and not has_own\n",
        by="bool(group.offsets)\n",
        caught_by=f"{_TESTS}/test_run.py",
    ),
    Mutant(
        name="without a cluster to ask every offset is within its bounds",
        file=f"{_MIGRATION}/target.py",
        replace="        if not found and not self._knows_cluster():\n",
        by="        if False:\n",
        caught_by=f"{_TESTS}/test_target.py",
    ),
    Mutant(
        name="an offset outside its partition is moved as if it were inside",
        file=f"{_MIGRATION}/differences.py",
        replace="    if bounds is not None and not is_within(found.offset, bounds):\n",
        by="    if bounds is not None and stored is not None and False:\n",
        caught_by=f"{_TESTS}/test_differences.py",
    ),
    Mutant(
        name="a line is split at its first colon",
        file=f"{_ZOOKEEPER}/offset_file.py",
        replace='    path, colon, value = text.rpartition(":")\n',
        by='    path, colon, value = text.partition(":")\n',
        caught_by=f"{_ZOOKEEPER_TESTS}/test_offset_file.py",
    ),
    Mutant(
        name="an empty line ends the file",
        file=f"{_ZOOKEEPER}/offset_file.py",
        replace="                    continue\n                parsed =",
        by="                    break\n                parsed =",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_offset_file.py",
    ),
    Mutant(
        name="a rollback writes over what was written since the cutover",
        file=f"{_ZOOKEEPER}/rollback.py",
        replace="    if version is None or node.version != version:\n",
        by="    if version is None:\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_rollback.py",
    ),
    Mutant(
        name="a rollback writes whatever version a znode has",
        file=f"{_ZOOKEEPER}/transactions.py",
        replace="            request.set_data(write.path, write.value, write.version)\n",
        by="            request.set_data(write.path, write.value, -1)\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_rollback.py",
    ),
    Mutant(
        name="a cutover does not look whether somebody writes meanwhile",
        file=f"{_ZOOKEEPER}/cutover.py",
        replace="            transaction(self.client, [write], checks=versions)\n",
        by="            transaction(self.client, [write])\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_cutover.py",
    ),
    Mutant(
        name="a cutover does not look again behind its mark",
        file=f"{_ZOOKEEPER}/cutover.py",
        replace="        if not changed:\n",
        by="        if True:\n",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_cutover.py",
    ),
    Mutant(
        name="a cutover takes the first walk's paths for all that there are",
        file=f"{_ZOOKEEPER}/cutover.py",
        replace="        self.layout.forget()\n",
        by="",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_cutover.py",
    ),
    Mutant(
        name="owners that may not be read are taken for none",
        file=f"{_ZOOKEEPER}/layouts/kafka08.py",
        replace=(
            "                    reading.note(answer)\n"
            "                    reading.owners = None\n"
            "            if reading.owners"
        ),
        by="                    reading.note(answer)\n            if reading.owners",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_layouts.py",
    ),
    Mutant(
        name="byte positions are taken for offsets of partition 1",
        file=f"{_ZOOKEEPER}/layouts/kafka08.py",
        replace="            if _BYTE_POSITION.fullmatch(name):\n",
        by='            name = name.partition("-")[0]\n            if False:\n',
        caught_by=f"{_ZOOKEEPER_TESTS}/test_layouts.py",
    ),
    Mutant(
        name="an unfinished transaction of Trident is skipped",
        file=f"{_ZOOKEEPER}/layouts/trident.py",
        replace="    return current is not None and int",
        by="    return current is not None and False and int",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_layouts.py",
    ),
    Mutant(
        name="of several unfinished transactions of Trident the last one counts",
        file=f"{_ZOOKEEPER}/layouts/trident.py",
        replace="min(unfinished, key=int)",
        by="max(unfinished, key=int)",
        caught_by=f"{_ZOOKEEPER_TESTS}/test_layouts.py",
    ),
    Mutant(
        name="a run stores over what is stored here",
        file=f"{_MIGRATION}/run.py",
        replace="objection(group)\n        if problem:\n",
        by="objection(group)\n        if problem and False:\n",
        caught_by=f"{_TESTS}/test_run.py",
    ),
    Mutant(
        name="another attempt has the request id of the first",
        file=f"{_MIGRATION}/journal.py",
        replace="(plan_id, step, group_id, str(attempt)))",
        by="(plan_id, step, group_id))",
        caught_by=f"{_TESTS}/test_run.py",
    ),
    Mutant(
        name="a run does not note what is done",
        file=f"{_MIGRATION}/run.py",
        replace='finish(entry, {"revision": revision and revision.log_offset})\n',
        by='latest(entry.step, "")\n',
        caught_by=f"{_TESTS}/test_run.py",
    ),
    Mutant(
        name="another run hides the images of the one before",
        file=f"{_MIGRATION}/run.py",
        replace='            details["carried"] = carried_of(',
        by='            details["later"] = carried_of(',
        caught_by=f"{_TESTS}/test_run.py",
    ),
    Mutant(
        name="undoing deletes what somebody wrote since the groups were read",
        file=f"{_MIGRATION}/undo.py",
        replace="    stored = target.stored([group_id])[group_id]\n    left,",
        by="    left,",
        caught_by=f"{_TESTS}/test_run.py",
    ),
    Mutant(
        name="undoing takes away a retention that somebody has set since",
        file=f"{_MIGRATION}/undo.py",
        replace="    return was_set is None or was_set",
        by="    return was_set is not None and False and was_set",
        caught_by=f"{_TESTS}/test_run.py",
    ),
    Mutant(
        name="undoing deletes what somebody wrote since",
        file=f"{_MIGRATION}/undo.py",
        replace="        if now is not None and now.revision == each.revision:\n",
        by="        if now is not None:\n",
        caught_by=f"{_TESTS}/test_run.py",
    ),
    Mutant(
        name="undoing looks at nothing beside what the run has stored",
        file=f"{_MIGRATION}/undo.py",
        replace="    changed += changed_others(entry, written, stored)\n",
        by="",
        caught_by=f"{_TESTS}/test_run.py",
    ),
    Mutant(
        name="a plan takes the place of one that was begun",
        file=f"{_MIGRATION}/plan_file.py",
        replace="    make_room(path)\n",
        by="",
        caught_by=f"{_TESTS}/test_plan_file.py",
    ),
    Mutant(
        name="a plan's checksum is not looked at",
        file=f"{_MIGRATION}/plan_file.py",
        replace='    if seal["sha256"] != digest.hexdigest():\n',
        by='    if not seal["sha256"]:\n',
        caught_by=f"{_TESTS}/test_plan_file.py",
    ),
    Mutant(
        name="an import passes over what its lines expect",
        file="coordinator/offsetd_coordinator/changes/change_decisions.py",
        replace="        _check_expected(state, request, rows)\n",
        by="        pass\n",
        caught_by=_IMPORTS,
    ),
    Mutant(
        name="an import with expectations is split",
        file="coordinator/offsetd_coordinator/changes/change_decisions.py",
        replace="        written, is_splittable = request.offsets, not request.expected\n",
        by="        written, is_splittable = request.offsets, True\n",
        caught_by=_IMPORTS,
    ),
    Mutant(
        name="any file is imported without an audit record",
        file="coordinator/offsetd_coordinator/services/offset_imports.py",
        replace="        if self._needs_precondition and not has_precondition:\n",
        by="        if False:\n",
        caught_by=_IMPORTS,
    ),
    Mutant(
        name="a commit time of tomorrow is kept",
        file="coordinator/offsetd_coordinator/services/offset_imports.py",
        replace="            min(offset.commit_timestamp_ms, self._kept_until_ms),\n",
        by="            offset.commit_timestamp_ms if self._kept_until_ms > 0 else -1,\n",
        caught_by=_IMPORTS,
    ),
)

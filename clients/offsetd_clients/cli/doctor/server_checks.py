"""The checks of a running server: each is a function of the facts that yields what is wrong."""

from collections.abc import Iterator
from datetime import timedelta

from offsetd_clients.cli.doctor.diagnosis import Check, Finding, bad, warn
from offsetd_clients.cli.doctor.machine_checks import folder_of, huge_pages, room
from offsetd_clients.cli.doctor.server_facts import ServerFacts
from offsetd_clients.cli.printing.terminal import time_text

SKEW_S_MAX = 5.0
CLOCK_BAD_S = 60.0
DAY_S = 86_400.0
CERTIFICATE_WARN_S, CERTIFICATE_BAD_S = 30 * DAY_S, 7 * DAY_S
DESCRIPTORS_WARN, DESCRIPTORS_BAD = 0.7, 0.9
BACKUPS_MISSED = 2
STOP_TOLD_MAX = timedelta(days=7)

# What each suspension of expiry needs. `disabled` was the operator's own choice.
EXPIRY_REMEDIES = {
    "settings_unreadable": "See the settings problem above; `offsetd admin config` sets them anew.",
    "audit_damaged": "Repair or recreate __offsetd_audit: `offsetd log repair`.",
    "foreign_folder": "Allow it when the groups are really here:"
    " `offsetd admin config offsets.expiry.enable=true`.",
    "long_stop": "Nothing to do: it ends by itself, once consumers had time to commit.",
    "clock_jump": "Nothing to do if the clock is right now: it ends by itself.",
    "low_disk": "It ends by itself when the disk has had room for a while.",
}


def server(facts: ServerFacts) -> Iterator[Finding]:
    """Does it serve, and is it what it says that it is?"""
    if facts.info.state != "serving":
        yield bad(f"the server is {facts.info.state}", "Wait for the load, or read its log.")
    for problem in facts.info.problems:
        yield bad(problem, "See the server's log.")
    if facts.info.settings_problem:
        yield bad(
            f"not all settings can be read: {facts.info.settings_problem}",
            "Set them anew: `offsetd admin config NAME=VALUE`. Until then nothing is deleted.",
        )
    for name in facts.unseen:
        yield warn(f"cannot see {name}", "Call doctor with a principal that may Describe.")


def last_stop(facts: ServerFacts) -> Iterator[Finding]:
    """Was the last stop clean? The check warns for a week after the start."""
    is_recent = facts.now - facts.info.start_time < STOP_TOLD_MAX
    if facts.info.stopped_cleanly is False and is_recent:
        yield warn(
            f"it had not stopped cleanly before its start at {time_text(facts.info.start_time)}:"
            " it was killed, it crashed, or the machine stopped",
            "Nothing that was acknowledged is lost. Read the ends of the server's log and of the"
            " machine's (journalctl -b -1, dmesg) from before.",
        )


def disk(facts: ServerFacts) -> Iterator[Finding]:
    """Is there room?"""
    free = facts.metrics.get("offsetd_disk_free_bytes")
    limit = facts.metrics.get("offsetd_disk_free_limit_bytes")
    if not facts.is_healthy["the disk"]:
        yield bad(
            "the disk has too little room: commits are refused",
            "Make room, or enlarge the disk; commits are then accepted by themselves.",
        )
    elif free is not None and limit is not None and free < 2 * limit:
        yield warn(
            f"{room(free)} are free; below {room(limit)} commits are refused",
            "Make room soon. `history.ms` and retention say how much the log keeps.",
        )


def clock(facts: ServerFacts) -> Iterator[Finding]:
    """Do the clocks agree?"""
    remedy = "Let NTP set the clock (chronyc tracking). Expiry and leases do not rest on it."
    offset_s = facts.info.clock_offset.total_seconds()
    if offset_s:
        side = "ahead of" if offset_s > 0 else "behind"
        told = f"the machine's clock is {abs(offset_s):.0f} s {side} the server's time"
        yield (bad if abs(offset_s) > CLOCK_BAD_S else warn)(told, remedy)
    jumps = facts.metrics.get("offsetd_clock_jumps_total") or 0
    if jumps:
        yield warn(f"the clock was set by more than a minute, {jumps:.0f} times", remedy)
    skew_s = facts.metrics.skew_s
    if abs(skew_s) > SKEW_S_MAX:
        side = "ahead of" if skew_s > 0 else "behind"
        yield warn(
            f"the server's machine is {abs(skew_s):.0f} s {side} this one",
            "Let NTP set both: times in answers and in logs do not match.",
        )


def descriptors(facts: ServerFacts) -> Iterator[Finding]:
    """May the process open more files? At its start it had enough for max.connections."""
    limit = facts.metrics.get("process_max_fds")
    used = facts.metrics.get("process_open_fds")
    if limit is None or used is None or used <= DESCRIPTORS_WARN * limit:
        return
    yield (bad if used > DESCRIPTORS_BAD * limit else warn)(
        f"{used:.0f} of {limit:.0f} descriptors are open",
        "Raise the limit (LimitNOFILE= of systemd, or `ulimit -n`), or lower max.connections.",
    )


def cleaner(facts: ServerFacts) -> Iterator[Finding]:
    """Does the log get smaller?"""
    if facts.settings.get("log.cleaner.enable") == "false":
        yield warn(
            "the cleaner is off: the log only grows",
            "`offsetd admin config --unset log.cleaner.enable`: `admin config` has set it."
            if "log.cleaner.enable" in facts.set_while_running
            else "Start the server with log.cleaner.enable=true.",
        )
    elif not facts.is_healthy["the cleaner"]:
        dead = facts.metrics.get("offsetd_cleaner_dead_threads") or 0
        yield bad(
            f"the cleaner makes no progress, {dead:.0f} of its threads are dead",
            "Read log-cleaner.log in the data folder; a start of the server starts it anew.",
        )


def partitions(facts: ServerFacts) -> Iterator[Finding]:
    """Is a part of the log damaged, or not cleaned?"""
    for each in facts.info.quarantined_partitions:
        yield bad(
            f"log partition {each} is damaged: its groups get DATA_LOSS",
            f"Stop the server, then `offsetd log repair --data-dir DIR --partition {each}`,"
            " or restore a backup.",
        )
    for partition in facts.partitions:
        cleaning = partition.cleaning
        if cleaning is not None and cleaning.uncleanable is not None:
            yield warn(
                f"log partition {partition.partition} cannot be cleaned:"
                f" {cleaning.uncleanable.reason}",
                f"Mend the cause, then `offsetd admin retry {partition.partition}`.",
            )
        if partition.blocked_retention is not None:
            yield warn(
                f"log partition {partition.partition}: a time in the future keeps old segments",
                f"It ends at {time_text(partition.blocked_retention.blocked_until_time)};"
                " or `offsetd admin delete-records`.",
            )


def expiry(facts: ServerFacts) -> Iterator[Finding]:
    """Do offsets expire as the settings say?"""
    held = facts.info.expiry_suspension
    if held is not None and held.reason in EXPIRY_REMEDIES:
        yield warn(f"nothing expires: {held.reason}", EXPIRY_REMEDIES[held.reason])


def certificate(facts: ServerFacts) -> Iterator[Finding]:
    """Does the server's certificate end soon?"""
    ends_s = facts.metrics.get("offsetd_ssl_certificate_expiry_timestamp_seconds")
    if ends_s is None:
        return
    left_s = ends_s - facts.now.timestamp()
    if left_s < CERTIFICATE_WARN_S:
        told = "has ended" if left_s < 0 else f"ends in {left_s / DAY_S:.0f} days"
        yield (bad if left_s < CERTIFICATE_BAD_S else warn)(
            f"the server's certificate {told}",
            "Put a new one in the place of its file: the server takes it without a restart.",
        )


def settings(facts: ServerFacts) -> Iterator[Finding]:
    """Do settings contradict each other?"""
    number, text = facts.number, facts.settings.get
    window_ms = number("lag.window.ms")
    rules = (
        (
            0 < number("offsets.retention.minutes") * 60_000 < number("history.ms"),
            "history.ms is longer than offsets.retention.minutes",
            "Offsets expire before their history does: lengthen the retention.",
        ),
        (
            0 < window_ms <= number("commit.unchanged.suppress.ms"),
            (
                "commit.unchanged.suppress.ms is not below lag.window.ms: an idle consumer looks"
                " stopped"
            ),
            "Lengthen lag.window.ms, or shorten commit.unchanged.suppress.ms.",
        ),
        (
            text("metrics.compatibility") == "kafka_exporter"
            and number("metrics.lag.partitions.max") == 0,
            "metrics.compatibility is set, but metrics.lag.partitions.max is 0",
            "Set metrics.lag.partitions.max to the number of partitions to show.",
        ),
        (
            number("queued.max.request.bytes") < 2 * number("socket.request.max.bytes"),
            "queued.max.request.bytes does not hold two of the largest requests",
            "Raise queued.max.request.bytes, or lower socket.request.max.bytes.",
        ),
        (
            number("request.id.window.ms") < number("request.receive.max.ms"),
            (
                "request.id.window.ms is shorter than request.receive.max.ms: a slow retry may be"
                " applied twice"
            ),
            "Raise request.id.window.ms.",
        ),
        (
            text("security.allow.insecure") == "true",
            "security.allow.insecure is set: everybody who reaches the port may do everything",
            "Set up TLS and rules: docs/guides/security.md.",
        ),
    )
    yield from (warn(what, remedy) for is_wrong, what, remedy in rules if is_wrong)


def metrics(facts: ServerFacts) -> Iterator[Finding]:
    """Can the server be watched?"""
    if facts.metrics.problem:
        yield warn(
            f"the metrics cannot be read, so less is checked: {facts.metrics.problem}",
            "Set metrics.address, or name the port: --metrics HOST:PORT.",
        )


def versions(facts: ServerFacts) -> Iterator[Finding]:
    """Are client and server of one version?"""
    if facts.info.version != facts.client_version:
        yield warn(
            f"the server is {facts.info.version}, this client {facts.client_version}",
            "Upgrade the older one; docs/upgrading.md says which versions go together.",
        )


def lag(facts: ServerFacts) -> Iterator[Finding]:
    """Do consumers keep up?"""
    groups = facts.metrics.get('offsetd_groups_by_verdict{verdict="ERR"}') or 0
    if groups:
        yield warn(
            f"groups whose consumers have stopped, stall or were rewound: {groups:.0f}",
            "`offsetd groups describe --all-groups --state --sort verdict` names them.",
        )


def backups(facts: ServerFacts) -> Iterator[Finding]:
    """Did the last backup succeed, and is it as young as it should be?"""
    interval_ms = facts.number("backup.interval.ms")
    if not facts.settings.get("backup.target") or not interval_ms or facts.metrics.problem:
        return
    last_s = facts.metrics.get("offsetd_backup_last_moment_timestamp_seconds")
    up = facts.now - facts.info.start_time
    most = timedelta(milliseconds=BACKUPS_MISSED * interval_ms)
    age = up if last_s is None else timedelta(seconds=facts.now.timestamp() - last_s)
    if facts.metrics.get("offsetd_backup_last_failed"):
        yield bad(
            "the last try to make a backup failed; it is tried again",
            "Read the server's log for the reason; `offsetd backup create` makes one now.",
        )
    elif age > most:
        told = "no backup since the start" if last_s is None else "the last backup is too old"
        yield bad(
            f"{told}: {age - timedelta(microseconds=age.microseconds)} are without one",
            "Read the server's log for the reason; `offsetd backup create` makes one now.",
        )


def cluster(facts: ServerFacts) -> Iterator[Finding]:
    """Does every log partition have a node?"""
    for problem in facts.cluster_problems:
        yield bad(problem, "`offsetd admin status` names nodes and log partitions.")


def machine(facts: ServerFacts) -> Iterator[Finding]:
    """The machine of a server that runs here."""
    if facts.folder is not None:
        yield from folder_of(facts.folder)
        yield from huge_pages()


SERVER_CHECKS: dict[str, Check[ServerFacts]] = {
    "server": server,
    "last stop": last_stop,
    "disk": disk,
    "clock": clock,
    "descriptors": descriptors,
    "cleaner": cleaner,
    "log partitions": partitions,
    "expiry": expiry,
    "certificate": certificate,
    "settings": settings,
    "metrics": metrics,
    "versions": versions,
    "lag": lag,
    "backups": backups,
    "cluster": cluster,
    "machine": machine,
}

"""The changes that the pages have, by the last part of their addresses."""

from collections.abc import Mapping

from offsetd_clients.web.changes import clones, deletions, members, resets, restores, retention
from offsetd_clients.web.changes import settings as settings_change
from offsetd_clients.web.changes.change import Wizard

OF_A_GROUP = (
    resets.WIZARD,
    restores.WIZARD,
    clones.WIZARD,
    retention.WIZARD,
    members.WIZARD,
    deletions.OFFSETS,
    deletions.GROUP,
)
WIZARDS: Mapping[str, Wizard] = {
    wizard.path: wizard for wizard in (*OF_A_GROUP, settings_change.WIZARD)
}

"""offsetd_clients.migration.batch_sizes beside the batches that a server writes."""

import pytest
from offsetd_clients.migration.batch_sizes import MESSAGE_BYTES_DEFAULT, batch_bytes_most
from offsetd_clients.migration.values import FoundOffset, PlannedGroup
from offsetd_coordinator.configuration.server_settings import Settings


def group_of(count: int) -> PlannedGroup:
    offsets = [FoundOffset(topic="orders", partition=each, offset=5) for each in range(count)]
    return PlannedGroup(group_id="billing", source_group_id="billing", offsets=tuple(offsets))


def test_the_default_is_the_servers() -> None:
    assert Settings().log.message_bytes_max == MESSAGE_BYTES_DEFAULT


@pytest.mark.parametrize(("count", "fits"), [(10_000, True), (15_000, False)])
def test_the_size_of_a_groups_batch_is_bounded(count: int, fits: bool) -> None:
    assert (batch_bytes_most(group_of(count)) <= MESSAGE_BYTES_DEFAULT) is fits

"""Changes that are remembered by request id."""

from offsetd_coordinator.state.settings_dedup import HEADER_NAME, ChangeKind, KnownChanges, header

WINDOW_MS = 60_000


def test_a_change_is_known_by_group_kind_and_request_id_for_as_long_as_the_window() -> None:
    known = KnownChanges(window_ms=WINDOW_MS, count_max=10)
    known.note(b"g", [header(ChangeKind.ACQUIRE, b"1")], offset=7, timestamp_ms=1000)
    assert known.find(ChangeKind.ACQUIRE, b"g", b"1", 1000 + WINDOW_MS) == 7
    assert known.find(ChangeKind.ACQUIRE, b"g", b"1", 1001 + WINDOW_MS) is None
    for kind, group_id, request_id in (
        (ChangeKind.RELEASE, b"g", b"1"),
        (ChangeKind.ACQUIRE, b"h", b"1"),
        (ChangeKind.ACQUIRE, b"g", b"2"),
        (ChangeKind.ACQUIRE, b"g", b""),
        (ChangeKind.ACQUIRE, b"", b"g1"),
    ):
        assert known.find(kind, group_id, request_id, 1000) is None


def test_what_is_out_of_the_window_or_too_much_is_forgotten_the_oldest_first() -> None:
    known = KnownChanges(window_ms=WINDOW_MS, count_max=2)
    for number in range(3):
        name = b"%d" % number
        known.note(b"g", [header(ChangeKind.UPDATE, name)], offset=number, timestamp_ms=number)
    found = [known.find(ChangeKind.UPDATE, b"g", b"%d" % number, 3) for number in range(3)]
    assert found == [None, 1, 2]
    known.note(b"g", [], offset=3, timestamp_ms=WINDOW_MS + 2)
    found = [known.find(ChangeKind.UPDATE, b"g", b"%d" % number, 3) for number in range(3)]
    assert found == [None, None, 2]


def test_headers_of_others_mean_nothing() -> None:
    known = KnownChanges(window_ms=WINDOW_MS, count_max=2)
    headers = [(HEADER_NAME, None), (HEADER_NAME, b""), ("theirs", b"\x011")]
    known.note(b"g", headers, offset=3, timestamp_ms=0)
    assert known.find(ChangeKind.ACQUIRE, b"g", b"1", 0) is None

"""offsetd_clients.calling.group_owners"""

from offsetd_clients.calling.group_owners import Seats


def test_the_home_queue_moves_only_when_the_home_queue_was_left() -> None:
    """A group's earlier commits may still be on their way to its home server."""
    seats = Seats("home:1")
    seats.move_home("other:1", "next:1")
    assert seats.address_of("g") == "home:1"
    seats.move_home("home:1", "next:1")
    assert seats.address_of("g") == "next:1"


def test_a_group_that_leaves_has_its_old_seat_until_it_has_left() -> None:
    seats = Seats("home:1")
    seats.leave("g", "home:1")
    seats.move_home("home:1", "next:1")
    assert seats.address_of("g") == "home:1"
    assert seats.address_of("another") == "next:1"
    seats.settle("g", "owner:1")
    assert seats.address_of("g") == "owner:1"

"""How much a server takes on at one time."""

from __future__ import annotations

from offsetd_coordinator.errors import TooManyBytesInFlight


class Admission:
    """Requests that are taken and not yet answered, over all connections, bounded in bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_taken = 0
        self.requests = 0

    def take(self, size: int) -> None:
        """Counts a request in. Raises TooManyBytesInFlight if it is one too many.

        A request is taken when nothing else is in flight, however large it is: what may be sent
        at all is for another limit to say.
        """
        taken = self.bytes_taken + size
        if taken > self.bytes_max and self.bytes_taken:
            raise TooManyBytesInFlight(
                f"{self.bytes_taken} bytes of requests wait for an answer, and {size} more would "
                f"exceed {self.bytes_max}"
            )
        self.bytes_taken = taken
        self.requests += 1

    def give_back(self, size: int, requests: int = 1) -> None:
        """Counts requests out, once they are answered or abandoned."""
        self.bytes_taken -= size
        self.requests -= requests
        assert self.bytes_taken >= 0 <= self.requests, "more is given back than was taken"

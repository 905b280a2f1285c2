"""Names that users chose, in links and on pages. They are hostile: long, with any character."""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import groupby
from urllib.parse import urlencode

import attrs
from markupsafe import Markup

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.cli.printing.terminal import printable

SHOWN_CHARACTERS_MAX = 100
LINKED_BYTES_MAX = 100
_PREFIX_CHARACTERS = 32
_PLAIN = Markup("{}")
_ESCAPED = Markup("<i>{}</i>")
_PLAIN_NAME = Markup("<bdi>{}</bdi>")
_WITH_ESCAPES = Markup('<bdi title="Marked: characters that cannot be seen, as escapes">{}</bdi>')
_SEARCHED_GROUPS_MAX = 10_000


class UnknownName(Exception):
    """No group has the name that a short link stands for."""


def bounded(text: str, characters_max: int = SHOWN_CHARACTERS_MAX) -> str:
    """Text for one cell: control characters and marks of direction escaped, its end cut."""
    return "".join(shown for shown, _ in _pieces(text, characters_max))


def marked(text: str, characters_max: int = SHOWN_CHARACTERS_MAX) -> Markup:
    """As `bounded`, as HTML that marks what is escaped: a name may have a backslash itself."""
    pieces = groupby(_pieces(text, characters_max), key=lambda piece: piece[1])
    made = Markup().join(
        (_ESCAPED if is_escaped else _PLAIN).format("".join(shown for shown, _ in run))
        for is_escaped, run in pieces
    )
    return (_WITH_ESCAPES if not text.isprintable() else _PLAIN_NAME).format(made)


def _pieces(text: str, characters_max: int) -> Iterator[tuple[str, bool]]:
    """What is shown of a text, each piece with whether it is an escape."""
    left = characters_max
    for character in text[:characters_max]:
        shown = printable(character)
        if len(shown) > left:
            left = -1
            break
        yield shown, shown != character
        left -= len(shown)
    if left < 0 or len(text) > characters_max:
        yield f"… ({len(text):,} characters)", False


def name_parameters(group_id: str) -> dict[str, str]:
    """The parameters of a link to a group.

    A long name is named by its first characters and its digest, so that a page of links stays
    small.
    """
    if is_short(group_id):
        return {"name": group_id}
    return {"prefix": group_id[:_PREFIX_CHARACTERS], "sha256": digest_of(group_id)}


def is_short(name: str) -> bool:
    """Whether a name may stand in a link as it is."""
    return len(name.encode()) <= LINKED_BYTES_MAX


def digest_of(name: str) -> str:
    """What stands for a name in a link."""
    return hashlib.sha256(name.encode()).hexdigest()


def group_link(group_id: str, path: str = "/group", **further: object) -> str:
    """The address of a page about a group."""
    return f"{path}?{urlencode({**name_parameters(group_id), **further})}"


@attrs.frozen
class GroupName:
    """The group that a link is about. Raises UnknownName and ValueError."""

    parameters: Mapping[str, str]

    async def found(self, client: AsyncOffsetClient) -> str:
        """The whole name."""
        if "name" in self.parameters:
            return self.parameters["name"]
        prefix, digest = self.parameters.get("prefix", ""), self.parameters.get("sha256", "")
        if not prefix or not digest:
            raise ValueError("the address names no group")
        listed = 0
        async for listing in client.list_groups(group_id_prefix=prefix):
            if digest_of(listing.group_id) == digest:
                return listing.group_id
            listed += 1
            if listed == _SEARCHED_GROUPS_MAX:
                break
        raise UnknownName(f"none of {listed:,} groups that begin with {bounded(prefix)}")

"""The form of architecture decision records, as functions from their text to what is wrong."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

SECTIONS = ("Context", "Decision", "Consequences")
OPTIONAL_SECTION = "Alternatives considered"
DIGITS = 4

_LINK = r"\[(\d{4})\]\((\d{4}-[^)]+\.md)\)"
_STATUS = re.compile(rf"Accepted|Superseded by {_LINK}")
_ROW = re.compile(rf"\| {_LINK} \| (.+) \| (.+) \| (\S+) \| (\S.*) \|")
_NAMED = re.compile(r"\bADRs? (\d+)\b|docs/adr/(\d+)\b")
_LINKED = re.compile(r"\[([^\]\[]*)\]\([\w./-]*?(\d{4}-[a-z0-9-]+\.md)\)")


class Header(NamedTuple):
    """What stands above the sections."""

    number: str
    title: str
    status: str
    date: str


def header_of(text: str) -> Header | None:
    found = re.match(r"# (\d{4}): (.+)\n\nStatus: (.+)\n\nDate: (.+)\n\n", text)
    return Header(*found.groups()) if found else None


def file_name(header: Header) -> str:
    """The number, and the words of the title."""
    words = re.findall(r"[a-z0-9]+", header.title.lower().replace("'", ""))
    return f"{header.number}-{'-'.join(words)}.md"


def number_problems(names: Collection[str]) -> Iterator[str]:
    """Files are numbered 0001, 0002 and so on."""
    for expected, name in enumerate(sorted(names), 1):
        if name[:DIGITS] != f"{expected:0{DIGITS}}":
            yield f"{name}: {expected:0{DIGITS}} was expected"
            return


def record_problems(name: str, text: str, names: Collection[str]) -> Iterator[str]:
    """A record has a title, a status, a date, and its sections, and is named by its title."""
    header = header_of(text)
    if header is None:
        yield "it does not begin with '# NNNN: title', 'Status: ' and 'Date: '"
        return
    if name != file_name(header):
        yield f"by its title its name is {file_name(header)}"
    status = _STATUS.fullmatch(header.status)
    if not status:
        yield f"status {header.status!r}"
    elif status[2] and status[2] not in names:
        yield f"superseded by {status[2]}, which does not exist"
    try:
        dt.date.fromisoformat(header.date)
    except ValueError:
        yield f"date {header.date!r}"
    yield from _section_problems(text)


def _section_problems(text: str) -> Iterator[str]:
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    if tuple(sections) not in {SECTIONS, (*SECTIONS, OPTIONAL_SECTION)}:
        yield f"its sections are {', '.join(sections)}"
    yield from (f"section {name} is empty" for name, body in sections.items() if not body.strip())


def amendment_problems(texts: Mapping[str, str]) -> Iterator[str]:
    """`Amends` of one record is `Amended by` of the other."""
    amended = {(name, other) for name, text in texts.items() for other in _names(text, "Amends")}
    said = {(other, name) for name, text in texts.items() for other in _names(text, "Amended by")}
    for name, other in sorted(amended ^ said):
        yield f"{name} amends {other}: only one of them says so"


def _names(text: str, label: str) -> list[str]:
    line = re.search(rf"^{label}: (.+)$", text, re.MULTILINE)
    return [name for _, name in re.findall(_LINK, line[1])] if line else []


def index_problems(index: str, texts: Mapping[str, str]) -> Iterator[str]:
    """The index has one row for each record, with title, status, date and decision."""
    rows = [match.groups() for line in index.splitlines() if (match := _ROW.fullmatch(line))]
    for name, text in texts.items():
        found = [row for row in rows if row[1] == name]
        if len(found) != 1:
            yield f"{name}: {len(found)} rows"
            continue
        header = header_of(text)
        number, _, title, status, date, _ = found[0]
        if header != (number, title, status, date):
            yield f"{name}: its row differs from its header"
    yield from (f"{row[1]}: not a record" for row in rows if row[1] not in texts)


def reference_problems(text: str, names: Collection[str]) -> Iterator[str]:
    """A record that a text names, by number or by a link, exists; a link's label has its number."""
    numbers = {name[:DIGITS] for name in names}
    for named in _NAMED.finditer(text):
        if (named[1] or named[2]) not in numbers:
            yield f"{named[0]} does not exist"
    for label, name in _LINKED.findall(text):
        if name not in names:
            yield f"{name} does not exist"
        elif (number := re.fullmatch(r"(?:ADR )?(\d+)", label)) and number[1] != name[:DIGITS]:
            yield f"[{label}] leads to {name}"

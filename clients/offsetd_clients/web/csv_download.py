"""The list of groups as CSV, as long as it is, without holding it in memory."""

import csv
import io
from collections.abc import AsyncIterator, Mapping

from starlette.responses import StreamingResponse

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.values import GroupListing, GroupListPage
from offsetd_clients.web.pages.groups import Choice

COLUMNS = (
    *("group", "type", "state", "protocol_type"),
    *("members", "offsets", "verdict", "lease_holder", "lag"),
)
_PAGE_SIZE = 1000
# A spreadsheet takes a cell that begins with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")  # Full width.


async def groups_csv(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> StreamingResponse:
    """All groups of a choice. The first page is read before the answer begins."""
    choice = Choice.of(parameters)
    first = await choice.page(client, _PAGE_SIZE, "")

    async def lines() -> AsyncIterator[str]:
        page = first
        yield _csv_lines([COLUMNS])
        while True:
            yield _csv_lines(_rows(page))
            if not page.next_page_token:
                return
            page = await choice.page(client, _PAGE_SIZE, page.next_page_token)

    headers = {"Content-Disposition": 'attachment; filename="groups.csv"'}
    return StreamingResponse(lines(), media_type="text/csv; charset=utf-8", headers=headers)


def _rows(page: GroupListPage) -> list[tuple[str, ...]]:
    return [
        (
            harmless(each.group_id),
            each.type,
            each.state,
            harmless(each.protocol_type),
            *_details(each),
            "" if each.lag is None else str(each.lag),
        )
        for each in page.groups
    ]


def _details(listing: GroupListing) -> tuple[str, ...]:
    details, verdict = listing.details, listing.lag_verdict or ""
    if details is None:  # Of an older server.
        return "", "", verdict, ""
    counts = str(details.member_count), str(details.offset_count)
    return (*counts, verdict, harmless(details.lease_holder))


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes as a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell


def _csv_lines(rows: list[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()

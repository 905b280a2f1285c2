"""`--sort`: the order in which a command prints its rows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Self

import attrs
import typer

from offsetd_clients.cli.printing.terminal import Row

SortOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sort",
        metavar="COLUMN",
        help="Sort rows by a column, as in lag; largest first: -lag; repeatable.",
    ),
]


@attrs.frozen
class RowOrder:
    """Columns, the most important first. Each has a flag: whether its largest values come first."""

    columns: Sequence[tuple[str, bool]] = ()

    @classmethod
    def of(
        cls,
        texts: Iterable[str] | None,
        columns: Collection[str],
        aliases: Mapping[str, str] | None = None,
    ) -> Self:
        """Reads names of `columns`, in any case, in the form of JSON or of a table's header.

        Raises typer.BadParameter.
        """
        return cls([_column(text, columns, aliases or {}) for text in texts or ()])

    def ordered(self, rows: Iterable[Row]) -> Iterable[Row]:
        """The sorted rows. Rows without a value come last; equal rows keep their order."""
        if not self.columns:
            return rows
        found = list(rows)
        for column, is_descending in reversed(self.columns):
            known = [row for row in found if row.get(column) is not None]
            unknown = [row for row in found if row.get(column) is None]
            known.sort(key=_value_of(column), reverse=is_descending)
            found = known + unknown
        return found


def _value_of(column: str) -> Any:
    return lambda row: row[column]


def _column(text: str, columns: Collection[str], aliases: Mapping[str, str]) -> tuple[str, bool]:
    name = text.removeprefix("-").lower().replace("-", "_")
    name = name if name in columns else aliases.get(name, name)
    if name not in columns:
        near = get_close_matches(name, columns, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise typer.BadParameter(
            f"{text!r} is not a column; the columns are: {', '.join(columns)}.{hint}"
        )
    return name, text.startswith("-")

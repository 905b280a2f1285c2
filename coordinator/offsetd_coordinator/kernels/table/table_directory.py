"""Tables of several shards, for a kernel that works on all of them in one call.

The number of arrays of a kernel is fixed when it is compiled. The number of log partitions to
which a message commits is not. So each table has a row with the addresses and the lengths of its
arrays. The row never moves; it is updated when an array moves. A directory is one array with the
address of each row. The caller that makes a directory must keep the tables alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from offsetd_storage.kernels import codegen
from offsetd_storage.kernels.registry import inline_kernel, intrinsic

from offsetd_coordinator.kernels.columns import (
    BLOCK_COLUMNS,
    ENTRY_COLUMNS,
    EXTRA_COLUMNS,
    NAME_COLUMNS,
    REQUEST_COLUMNS,
    WINDOW_COLUMNS,
    Table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from offsetd_coordinator.kernels.columns import Int64s, TableArrays

# The address of each array in the order of `Table`'s fields, then the length of each.
_ARRAYS: Final = len(Table._fields)
ROW_COLUMNS: Final = 2 * _ARRAYS


def fill_row(row: Int64s, arrays: TableArrays) -> None:
    """Writes the addresses of a table's arrays to its row. No kernel may run at that time."""
    row[:_ARRAYS] = [_address(each) for each in arrays]
    row[_ARRAYS:] = [len(each) for each in arrays]


def directory_of(rows: Mapping[int, Int64s], size: int) -> Int64s:
    """Returns a directory for `size` tables, filled with the tables of `rows`."""
    directory = np.zeros(size, np.int64)
    for place, row in rows.items():
        directory[place] = _address(row)
    return directory


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _view(item_name: str, columns: int) -> Any:
    """An intrinsic: (address, length) -> the array at the address; two-dimensional if `columns`."""

    def view(typing_context: Any, address: Any, length: Any) -> Any:
        del typing_context, address, length
        types = codegen.types
        item = getattr(types, item_name)
        array_type = types.Array(item, 2 if columns else 1, "C")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            del signature
            pack = codegen.cgutils.pack_array
            address, length = arguments
            array = codegen.arrayobj.make_array(array_type)(context, builder)
            item_bytes = context.get_abi_sizeof(context.get_data_type(item))
            widths = [columns] if columns else []
            constants = [context.get_constant(types.intp, width) for width in widths]
            sizes = [item_bytes * width for width in widths] + [item_bytes]
            codegen.arrayobj.populate_array(
                array,
                data=builder.inttoptr(address, array.data.type),
                shape=pack(builder, [length, *constants]),
                strides=pack(builder, [context.get_constant(types.intp, each) for each in sizes]),
                itemsize=context.get_constant(types.intp, item_bytes),
                meminfo=None,
            )
            return array._getvalue()

        return array_type(types.int64, types.int64), generate

    return intrinsic(view)


_words = _view("int64", 0)
_bytes = _view("uint8", 0)
_blocks = _view("int64", BLOCK_COLUMNS)
_entries = _view("int64", ENTRY_COLUMNS)
_extras = _view("int64", EXTRA_COLUMNS)
_names = _view("int64", NAME_COLUMNS)
_requests = _view("int64", REQUEST_COLUMNS)
_windows = _view("int64", WINDOW_COLUMNS)


@inline_kernel
def table_at(directory: Int64s, place: int) -> Table:
    """One of the tables of a directory."""
    row = _words(directory[place], ROW_COLUMNS)
    addresses, lengths = row[:_ARRAYS], row[_ARRAYS:]
    return Table(
        _words(addresses[0], lengths[0]),
        _words(addresses[1], lengths[1]),
        _blocks(addresses[2], lengths[2]),
        _entries(addresses[3], lengths[3]),
        _extras(addresses[4], lengths[4]),
        _words(addresses[5], lengths[5]),
        _names(addresses[6], lengths[6]),
        _bytes(addresses[7], lengths[7]),
        _bytes(addresses[8], lengths[8]),
        _words(addresses[9], lengths[9]),
        _requests(addresses[10], lengths[10]),
        _windows(addresses[11], lengths[11]),
    )

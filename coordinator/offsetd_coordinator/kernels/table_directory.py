"""Tables of several shards, for a kernel that works on all of them in one call.

How many arrays a kernel takes is fixed when it is compiled; how many log partitions the commits of
a message go to is not. So a directory is one array, with a row for each table: the address and the
length of each of its arrays. A row is good until its table makes room and replaces an array, so
rows are copied for each call anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numba import types
from numba.extending import intrinsic
from offsetd_storage.kernels.registry import inline_kernel

from offsetd_coordinator.kernels.columns import (
    BLOCK_COLUMNS,
    ENTRY_COLUMNS,
    EXTRA_COLUMNS,
    NAME_COLUMNS,
    REQUEST_COLUMNS,
    Table,
)

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Int64s, TableArrays

# The address of each array in the order of `Table`'s fields, then the length of each.
_ARRAYS: Final = len(Table._fields)
DIRECTORY_COLUMNS: Final = 2 * _ARRAYS

_intrinsic: Final[Any] = intrinsic


def directory_row(arrays: TableArrays) -> Int64s:
    """The row of a table."""
    addresses = [each.__array_interface__["data"][0] for each in arrays]
    return np.array(addresses + [len(each) for each in arrays], np.int64)


def _view(item: Any, columns: int) -> Any:
    """An intrinsic: (address, length) -> the array that is there, of rows if it has columns."""
    array_type = types.Array(item, 2 if columns else 1, "C")

    def view(typing_context: Any, address: Any, length: Any) -> Any:
        del typing_context, address, length

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            # Only compiling needs these, which take long to import.
            from numba.core import cgutils  # noqa: PLC0415
            from numba.np import arrayobj  # noqa: PLC0415

            del signature
            make_array: Any = arrayobj.make_array
            populate_array: Any = arrayobj.populate_array
            pack: Any = cgutils.pack_array
            address, length = arguments
            array = make_array(array_type)(context, builder)
            item_bytes = context.get_abi_sizeof(context.get_data_type(item))
            widths = [columns] if columns else []
            constants = [context.get_constant(types.intp, width) for width in widths]
            sizes = [item_bytes * width for width in widths] + [item_bytes]
            populate_array(
                array,
                data=builder.inttoptr(address, array.data.type),
                shape=pack(builder, [length, *constants]),
                strides=pack(builder, [context.get_constant(types.intp, each) for each in sizes]),
                itemsize=context.get_constant(types.intp, item_bytes),
                meminfo=None,
            )
            return array._getvalue()

        return array_type(types.int64, types.int64), generate

    return _intrinsic(view)


_words = _view(types.int64, 0)
_bytes = _view(types.uint8, 0)
_blocks = _view(types.int64, BLOCK_COLUMNS)
_entries = _view(types.int64, ENTRY_COLUMNS)
_extras = _view(types.int64, EXTRA_COLUMNS)
_names = _view(types.int64, NAME_COLUMNS)
_requests = _view(types.int64, REQUEST_COLUMNS)


@inline_kernel
def table_at(directory: Int64s, row: int) -> Table:
    """The table that a row of a directory stands for."""
    addresses, lengths = directory[row, :_ARRAYS], directory[row, _ARRAYS:]
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
    )

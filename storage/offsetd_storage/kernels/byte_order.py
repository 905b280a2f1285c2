"""Big-endian loads and stores, and Kafka's varints, on padded `uint8` buffers.

All functions take and return int64. Loads and stores are single unaligned machine instructions with
a byte swap; they check nothing (except with NUMBA_BOUNDSCHECK=1), so callers check lengths first.
The varint functions read only bytes before `end` and report if a varint does not end there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from offsetd_storage.kernels import codegen
from offsetd_storage.kernels.registry import inline_kernel, intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Load = Callable[[Bytes, int], int]
    Store = Callable[[Bytes, int, int], None]

_VARINT_BYTES_MAX: Final = 5
_VARLONG_BYTES_MAX: Final = 10
_LOGICAL_SHIFT_7_MASK: Final = (1 << 57) - 1
_U32_MASK: Final = (1 << 32) - 1


def _is_buffer(array: Any) -> bool:
    return (
        isinstance(array, codegen.types.Array)
        and array.dtype == codegen.types.uint8
        and array.ndim == 1
        and array.layout == "C"
    )


def element_pointer(
    context: Any, builder: Any, array_type: Any, array: Any, position: Any, size: Any
) -> Any:
    """The address of `size` bytes at `position`; raises IndexError when bounds are checked."""
    view = context.make_array(array_type)(context, builder, array)
    if codegen.config.BOUNDSCHECK:
        end = builder.add(position, size)
        outside = builder.or_(
            builder.icmp_signed("<", position, codegen.ir.Constant(position.type, 0)),
            builder.icmp_signed(">", end, view.nitems),
        )
        outside = builder.or_(outside, builder.icmp_signed(">", position, end))
        with builder.if_then(outside, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, ("outside of the buffer",))
    return builder.gep(view.data, [position])


def _load(bits: int, *, signed: bool) -> Load:
    def load(typing_context: Any, buffer: Any, position: Any) -> Any:
        del typing_context
        if not _is_buffer(buffer) or not isinstance(position, codegen.types.Integer):
            return None

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, at = arguments
            size = codegen.ir.Constant(at.type, bits // 8)
            pointer = element_pointer(context, builder, signature.args[0], array, at, size)
            integer = codegen.ir.IntType(bits)
            value = builder.load(builder.bitcast(pointer, integer.as_pointer()), align=1)
            if bits > 8:
                value = builder.bswap(value)
            if bits < 64:
                extend = builder.sext if signed else builder.zext
                value = extend(value, codegen.ir.IntType(64))
            return value

        return codegen.types.int64(buffer, codegen.types.int64), generate

    return cast("Load", intrinsic(load))


def _store(bits: int) -> Store:
    def store(typing_context: Any, buffer: Any, position: Any, value: Any) -> Any:
        del typing_context
        if not _is_buffer(buffer) or not isinstance(position, codegen.types.Integer):
            return None
        if not isinstance(value, codegen.types.Integer):
            return None

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, at, number = arguments
            size = codegen.ir.Constant(at.type, bits // 8)
            pointer = element_pointer(context, builder, signature.args[0], array, at, size)
            integer = codegen.ir.IntType(bits)
            if bits < 64:
                number = builder.trunc(number, integer)
            if bits > 8:
                number = builder.bswap(number)
            builder.store(number, builder.bitcast(pointer, integer.as_pointer()), align=1)
            return context.get_dummy_value()

        return codegen.types.void(buffer, codegen.types.int64, codegen.types.int64), generate

    return cast("Store", intrinsic(store))


load_i8 = _load(8, signed=True)  # (buffer, position) -> int64, as all others
load_u8 = _load(8, signed=False)
load_i16 = _load(16, signed=True)
load_u16 = _load(16, signed=False)
load_i32 = _load(32, signed=True)
load_u32 = _load(32, signed=False)
load_i64 = _load(64, signed=True)

store_i8 = _store(8)  # (buffer, position, value); keeps the low bits, so it also stores unsigned
store_i16 = _store(16)
store_i32 = _store(32)
store_i64 = _store(64)


def _copy_bytes(
    typing_context: Any, target: Any, position: Any, source: Any, start: Any, size: Any
) -> Any:
    del typing_context, position, start, size
    if not (_is_buffer(target) and _is_buffer(source)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to_array, to, from_array, at, count = arguments
        to_type, _, from_type, _, _ = signature.args
        to_pointer = element_pointer(context, builder, to_type, to_array, to, count)
        from_pointer = element_pointer(context, builder, from_type, from_array, at, count)
        codegen.cgutils.raw_memcpy(builder, to_pointer, from_pointer, count, 1)
        return context.get_dummy_value()

    return codegen.types.void(
        target, codegen.types.int64, source, codegen.types.int64, codegen.types.int64
    ), generate


def _leading_zeros(typing_context: Any, value: Any) -> Any:
    del typing_context, value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return builder.ctlz(arguments[0], codegen.ir.Constant(codegen.ir.IntType(1), 0))

    return codegen.types.int64(codegen.types.int64), generate


# (target, position, source, start, size): the two ranges must not overlap.
copy_bytes: Callable[[Bytes, int, Bytes, int, int], None] = intrinsic(_copy_bytes)

# (value) -> the number of its 64 bits before the highest 1; 64 for zero.
leading_zeros: Callable[[int], int] = intrinsic(_leading_zeros)


@inline_kernel
def equal_bytes(first: Bytes, position: int, second: Bytes, start: int, size: int) -> bool:
    """Whether two ranges hold the same bytes; both buffers are padded."""
    done = 0
    while done + 8 <= size:
        if load_i64(first, position + done) != load_i64(second, start + done):
            return False
        done += 8
    if done == size:
        return True
    difference = load_i64(first, position + done) ^ load_i64(second, start + done)
    return leading_zeros(difference) >= 8 * (size - done)


@inline_kernel
def zigzag(value: int) -> int:
    """Signed to zigzag, so that small negative numbers stay short."""
    return (value << 1) ^ (value >> 63)


@inline_kernel
def unzigzag(raw: int) -> int:
    """The inverse of `zigzag`, over all 64 bits."""
    return ((raw >> 1) & ((1 << 63) - 1)) ^ -(raw & 1)


@inline_kernel
def unsigned_varint_size(value: int) -> int:
    """Bytes of an unsigned varint; a negative number counts as its 64-bit pattern."""
    bits = 64 - leading_zeros(value | 1)
    return ((bits + 6) * 9363) >> 16  # A division by 7, for numbers below 71.


@inline_kernel
def varint_size(value: int) -> int:
    """Bytes of a zigzag varint or varlong: 1 to 5 for an int32, up to 10 for an int64."""
    return unsigned_varint_size(zigzag(value))


@inline_kernel
def store_unsigned_varint(target: Bytes, position: int, value: int) -> int:
    """Write `value` (its 64-bit pattern) at `position`. Returns its end."""
    while value & ~127:
        store_i8(target, position, value | 128)
        value = (value >> 7) & _LOGICAL_SHIFT_7_MASK
        position += 1
    store_i8(target, position, value)
    return position + 1


@inline_kernel
def store_varint(target: Bytes, position: int, value: int) -> int:
    """Write a zigzag varint (or varlong: the same bytes) at `position`. Returns its end."""
    return store_unsigned_varint(target, position, zigzag(value))


@inline_kernel
def _load_raw_varint(buffer: Bytes, position: int, end: int, bytes_max: int) -> tuple[int, int]:
    raw = 0
    shift = 0
    limit = min(end, position + bytes_max)
    while position < limit:
        byte = load_u8(buffer, position)
        position += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            return raw, position
        shift += 7
    return 0, -1


@inline_kernel
def load_unsigned_varint(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """(value, its end), or (0, -1) if no varint of up to 5 bytes ends before `end`."""
    raw, following = _load_raw_varint(buffer, position, end, _VARINT_BYTES_MAX)
    return raw & _U32_MASK, following


@inline_kernel
def load_varint(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """(int32 value, its end), or (0, -1) if no varint of up to 5 bytes ends before `end`."""
    raw, following = _load_raw_varint(buffer, position, end, _VARINT_BYTES_MAX)
    return unzigzag(raw & _U32_MASK), following


@inline_kernel
def load_varlong(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """(int64 value, its end), or (0, -1) if no varint of up to 10 bytes ends before `end`."""
    raw, following = _load_raw_varint(buffer, position, end, _VARLONG_BYTES_MAX)
    return unzigzag(raw), following

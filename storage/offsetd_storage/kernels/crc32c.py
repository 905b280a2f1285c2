"""CRC32C (Castagnoli), the checksum of Kafka's record batches and of our own files.

With SSE4.2, LLVM makes it one instruction for 8 bytes. Without SSE4.2 it uses eight tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from offsetd_storage.kernels import codegen
from offsetd_storage.kernels.byte_order import element_pointer, load_u8
from offsetd_storage.kernels.registry import (
    inline_kernel,
    intrinsic,
    kernel,
    processor_has,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Step = Callable[[int, Bytes, int], int]

_POLYNOMIAL: Final = 0x82F63B78  # reflected
_U32_MASK: Final = (1 << 32) - 1
HAS_SSE42: Final = processor_has("sse4.2")


def _make_tables() -> npt.NDArray[np.int64]:
    """Entry [k, b]: the checksum state of byte b followed by k zero bytes."""
    tables = np.zeros((8, 256), dtype=np.int64)
    for byte in range(256):
        state = byte
        for _ in range(8):
            state = (state >> 1) ^ (_POLYNOMIAL if state & 1 else 0)
        tables[0, byte] = state
    for k in range(1, 8):
        before = tables[k - 1]
        tables[k] = (before >> 8) ^ tables[0][before & 255]
    return tables


_TABLES: Final = _make_tables()


def _sse42_step(bits: int) -> Step:
    def step(typing_context: Any, state: Any, buffer: Any, position: Any) -> Any:
        del typing_context, state, position

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            before, array, at = arguments
            size = codegen.ir.Constant(at.type, bits // 8)
            pointer = element_pointer(context, builder, signature.args[1], array, at, size)
            integer = codegen.ir.IntType(bits)
            state_type = codegen.ir.IntType(64 if bits == 64 else 32)
            chunk = builder.load(builder.bitcast(pointer, integer.as_pointer()), align=1)
            instruction = builder.module.declare_intrinsic(
                f"llvm.x86.sse42.crc32.{state_type.width}.{bits}",
                fnty=codegen.ir.FunctionType(state_type, [state_type, integer]),
            )
            if bits == 64:
                return builder.call(instruction, [before, chunk])
            after = builder.call(instruction, [builder.trunc(before, state_type), chunk])
            return builder.zext(after, codegen.ir.IntType(64))

        return codegen.types.int64(codegen.types.int64, buffer, codegen.types.int64), generate

    return cast("Step", intrinsic(step))


def _sse42_head(typing_context: Any, state: Any, buffer: Any, position: Any, size: Any) -> Any:
    del typing_context, state, position, size

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        before, array, at, count = arguments
        word = codegen.ir.IntType(64)
        pointer = element_pointer(context, builder, signature.args[1], array, at, word(8))
        chunk = builder.load(builder.bitcast(pointer, word.as_pointer()), align=1)
        instruction = builder.module.declare_intrinsic(
            "llvm.x86.sse42.crc32.64.64", fnty=codegen.ir.FunctionType(word, [word, word])
        )
        # Zeros before the first byte change nothing if the state is zero. So the state is xored
        # into the bytes that it would meet, and its remaining bits are xored into the result.
        shift = builder.sub(word(32), builder.shl(count, word(2)))  # Twice: it may be 64 bits.
        padded = builder.shl(builder.shl(builder.xor(chunk, before), shift), shift)
        left = builder.lshr(before, builder.shl(count, word(3)))
        return builder.xor(builder.call(instruction, [word(0), padded]), left)

    return codegen.types.int64(
        codegen.types.int64, buffer, codegen.types.int64, codegen.types.int64
    ), generate


# (state, buffer, position, size) -> state: after the first `size` (0 to 7) of 8 bytes.
_sse42_first_bytes: Final[Any] = intrinsic(_sse42_head)
_sse42_step_8 = _sse42_step(64)  # (state, buffer, position) -> state
_sse42_step_4 = _sse42_step(32)
_sse42_step_2 = _sse42_step(16)
_sse42_step_1 = _sse42_step(8)


@inline_kernel
def extend_sse42(state: int, buffer: Bytes, start: int, end: int) -> int:
    """The checksum state after the bytes from `start` to `end`, by the processor's instruction.

    Sizes differ from batch to batch, and a processor cannot predict them. So if there are 8 bytes,
    no branch depends on the number of bytes that remain.
    """
    if end - start >= 8:
        over = (end - start) & 7
        state = _sse42_first_bytes(state, buffer, start, over)
        start += over
        while start < end:
            state = _sse42_step_8(state, buffer, start)
            start += 8
        return state
    return _extend_by_few(state, buffer, start, end)


@inline_kernel
def _extend_by_few(state: int, buffer: Bytes, start: int, end: int) -> int:
    """The state of `extend_sse42` for fewer than 8 bytes."""
    rest = end - start
    if rest & 4:
        state = _sse42_step_4(state, buffer, start)
        start += 4
    if rest & 2:
        state = _sse42_step_2(state, buffer, start)
        start += 2
    if rest & 1:
        state = _sse42_step_1(state, buffer, start)
    return state


@inline_kernel
def extend_tables(state: int, buffer: Bytes, start: int, end: int) -> int:
    """The checksum state after the bytes from `start` to `end`, by tables."""
    while start + 8 <= end:
        state = (
            _TABLES[7, (state ^ load_u8(buffer, start)) & 255]
            ^ _TABLES[6, ((state >> 8) ^ load_u8(buffer, start + 1)) & 255]
            ^ _TABLES[5, ((state >> 16) ^ load_u8(buffer, start + 2)) & 255]
            ^ _TABLES[4, ((state >> 24) ^ load_u8(buffer, start + 3)) & 255]
            ^ _TABLES[3, load_u8(buffer, start + 4)]
            ^ _TABLES[2, load_u8(buffer, start + 5)]
            ^ _TABLES[1, load_u8(buffer, start + 6)]
            ^ _TABLES[0, load_u8(buffer, start + 7)]
        )
        start += 8
    while start < end:
        state = (state >> 8) ^ _TABLES[0, (state ^ load_u8(buffer, start)) & 255]
        start += 1
    return state


extend: Final = extend_sse42 if HAS_SSE42 else extend_tables


@inline_kernel
def checksum(buffer: Bytes, start: int, end: int) -> int:
    """CRC32C of the bytes from `start` to `end`, for use inside other kernels."""
    return extend(_U32_MASK, buffer, start, end) ^ _U32_MASK


@inline_kernel
def continued_checksum(crc: int, buffer: Bytes, start: int, end: int) -> int:
    """CRC32C of bytes with the checksum `crc` (0 if none) and the bytes from `start` to `end`."""
    return extend(crc ^ _U32_MASK, buffer, start, end) ^ _U32_MASK


@kernel("int64(uint8[::1], int64, int64)")
def crc32c(buffer: Bytes, start: int, end: int) -> int:
    """CRC32C of the bytes from `start` to `end`, 0 to 2**32 - 1."""
    return checksum(buffer, start, end)


@kernel("int64(int64, uint8[::1], int64, int64)")
def continued_crc32c(crc: int, buffer: Bytes, start: int, end: int) -> int:
    """`continued_checksum` for calls from Python."""
    return continued_checksum(crc, buffer, start, end)

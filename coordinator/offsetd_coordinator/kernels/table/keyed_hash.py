"""A fast hash for which nobody outside the process can choose colliding inputs.

Words are mixed in by a 64 by 64 bit multiplication whose two halves are xored, with secret
random seeds. A client does not know the seeds, so it cannot make names collide. A lookup of a
name or a block compares the name or the block, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from offsetd_storage.kernels import codegen
from offsetd_storage.kernels.byte_order import load_i64
from offsetd_storage.kernels.registry import inline_kernel, intrinsic

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes

_TAG_MASK: Final = (1 << 32) - 1


def _multiply_fold(typing_context: Any, first: Any, second: Any) -> Any:
    del typing_context, first, second

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        wide = codegen.ir.IntType(128)
        word = codegen.ir.IntType(64)
        product = builder.mul(*(builder.zext(each, wide) for each in arguments))
        high = builder.trunc(builder.lshr(product, codegen.ir.Constant(wide, 64)), word)
        return builder.xor(builder.trunc(product, word), high)

    return codegen.types.int64(codegen.types.int64, codegen.types.int64), generate


# (first, second) -> the two halves of their 128-bit product, xored; both as 64-bit patterns.
multiply_fold = intrinsic(_multiply_fold)


@inline_kernel
def tag_of(hashed: int) -> int:
    """The 32 bits of a hash that a slot keeps: 0 to 2**32 - 1."""
    return (hashed >> 32) & _TAG_MASK


@inline_kernel
def hash_words(first: int, second: int, seed: int, seed_2: int) -> int:
    """Hash of two numbers."""
    return int(multiply_fold(first ^ seed, second ^ seed_2))


@inline_kernel
def hash_bytes(buffer: Bytes, start: int, size: int, seed: int, seed_2: int) -> int:
    """Hash of `size` bytes of a padded buffer."""
    hashed = seed_2 ^ size
    while size >= 16:
        hashed = multiply_fold(load_i64(buffer, start) ^ seed, load_i64(buffer, start + 8) ^ hashed)
        start += 16
        size -= 16
    if size > 8:
        first = load_i64(buffer, start)
        second = _leading_bytes(load_i64(buffer, start + 8), size - 8)
    else:
        first = _leading_bytes(load_i64(buffer, start), size)
        second = 0
    return int(multiply_fold(multiply_fold(first ^ seed, second ^ hashed), seed_2))


@inline_kernel
def _leading_bytes(word: int, size: int) -> int:
    """The first `size` bytes, 0 to 8, of a big-endian word. The bytes after them do not count."""
    if size == 0:
        return 0
    return word >> (64 - 8 * size)

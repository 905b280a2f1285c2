from __future__ import annotations

import gzip
import struct

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_storage.batch.compression import (
    Compression,
    DecompressionFailed,
    compress,
    decompress,
)

XERIAL_HEADER = bytes.fromhex("82 534e41505059 00 00000001 00000001")
# A literal of five bytes: their number, a tag, the bytes.
RAW_SNAPPY = b"\x05\x10hello"
XERIAL = XERIAL_HEADER + struct.pack(">i", len(RAW_SNAPPY)) + RAW_SNAPPY
# Magic, flags, block size, header checksum; an uncompressed block of five bytes; the end mark.
LZ4 = bytes.fromhex("04224d18 60 40 82 05000080") + b"hello" + bytes(4)
# Magic, flags, content size; the last block, raw, of five bytes.
ZSTD = bytes.fromhex("28b52ffd 20 05 290000") + b"hello"
GZIP = gzip.compress(b"hello", mtime=0)

CODECS = [each for each in Compression if each is not Compression.NONE]


@pytest.mark.parametrize("codec", Compression)
@given(content=st.binary(max_size=2000) | st.binary(max_size=20).map(lambda each: each * 5000))
def test_content_survives_compression(codec, content):
    assert decompress(codec, compress(codec, content)) == content


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [32_767, 32_768, 32_769, 5_000_000])
def test_content_that_grows_more_than_most_is_read_whole(codec, size):
    content = bytes(size)
    assert decompress(codec, compress(codec, content)) == content


@pytest.mark.parametrize(
    ("codec", "compressed", "content"),
    [
        (Compression.GZIP, GZIP, b"hello"),
        (Compression.GZIP, GZIP * 2, b"hellohello"),
        (Compression.SNAPPY, RAW_SNAPPY, b"hello"),
        (Compression.SNAPPY, XERIAL_HEADER, b""),
        (Compression.SNAPPY, XERIAL, b"hello"),
        (Compression.SNAPPY, XERIAL * 2, b"hellohello"),
        (Compression.LZ4, LZ4, b"hello"),
        (Compression.LZ4, LZ4 * 2, b"hellohello"),
        (Compression.ZSTD, ZSTD, b"hello"),
        (Compression.ZSTD, ZSTD * 2, b"hellohello"),
    ],
)
def test_each_format_is_read_also_where_streams_follow_each_other(codec, compressed, content):
    assert decompress(codec, compressed) == content


def test_snappy_is_written_as_snappy_java_does():
    content = bytes(range(256)) * 300
    compressed = compress(Compression.SNAPPY, content)
    assert compressed.startswith(XERIAL_HEADER)
    position, parts = len(XERIAL_HEADER), []
    while position < len(compressed):
        (size,) = struct.unpack_from(">i", compressed, position)
        position += 4
        parts.append(bytes(cramjam.snappy.decompress_raw(compressed[position : position + size])))
        position += size
    assert [len(part) for part in parts] == [32768, 32768, len(content) - 65536]
    assert b"".join(parts) == content


def test_gzip_is_what_everybody_reads():
    assert gzip.decompress(compress(Compression.GZIP, b"hello")) == b"hello"


@pytest.mark.parametrize("codec", CODECS)
def test_content_at_the_bound_is_read_and_beyond_it_refused(codec):
    compressed = compress(codec, bytes(100_000))
    assert decompress(codec, compressed, size_max=100_000) == bytes(100_000)
    with pytest.raises(DecompressionFailed):
        decompress(codec, compressed, size_max=99_999)


def test_a_snappy_length_alone_makes_no_room():
    with pytest.raises(DecompressionFailed, match="grows beyond"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f\x00")


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_cut_short_is_refused(codec):
    compressed = compress(codec, b"The quick brown fox jumps over the lazy dog" * 20)
    for size in range(1, len(compressed)):
        if codec is Compression.SNAPPY and size == len(XERIAL_HEADER):
            continue  # No chunk is a stream, too.
        with pytest.raises(DecompressionFailed):
            decompress(codec, compressed[:size])


@pytest.mark.parametrize("codec", CODECS)
@given(junk=st.binary(max_size=100))
def test_junk_is_refused_or_read_but_nothing_else_happens(codec, junk):
    # LZ4 and xerial have heads, which make junk behind them more of a trial.
    for head in (b"", XERIAL_HEADER, LZ4[:7], ZSTD[:4], GZIP[:10]):
        try:
            content = decompress(codec, head + junk, size_max=10_000)
        except DecompressionFailed:
            continue
        assert len(content) <= 10_000


@pytest.mark.parametrize("size", [-1, 7, 2**31 - 1])
def test_a_xerial_chunk_with_a_length_that_cannot_be_is_refused(size):
    damaged = XERIAL_HEADER + struct.pack(">i", size) + RAW_SNAPPY[:-1]
    with pytest.raises(DecompressionFailed):
        decompress(Compression.SNAPPY, damaged)


def test_the_blocks_of_an_lz4_frame_do_not_depend_on_each_other() -> None:
    flags = compress(Compression.LZ4, b"x" * 100_000)[4]
    assert flags & 0x20, "Kafka's reader refuses linked blocks"

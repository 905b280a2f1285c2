"""JSON text as Kafka's tools print it, where it differs from Python's."""

import pytest
from offsetd_storage.offsets_topic.schemas.kafka_json import json_string, replacing_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("größe 🚀/\u2028\x7f\x80", '"größe 🚀/\u2028\x7f\x80"'),
        ('"\\\t\b\f\n\r', r'"\"\\\t\b\f\n\r"'),
        ("\x00\x1f\x0b", r'"\u0000\u001F\u000B"'),
    ],
)
def test_only_what_must_be_is_escaped_and_in_upper_case(text: str, expected: str) -> None:
    assert json_string(text) == expected


# What Java 17's `new String(bytes, UTF_8)` made of them.
@pytest.mark.parametrize(
    ("raw", "code_points"),
    [
        ("61ff62", "0061 fffd 0062"),
        ("c328", "fffd 0028"),
        ("eda080", "fffd"),
        ("edbfbf61", "fffd 0061"),
        ("eda0", "fffd"),
        ("ed9f", "fffd"),
        ("e28261", "fffd 0061"),
        ("f0288cbc", "fffd 0028 fffd fffd"),
        ("f09f9a", "fffd"),
        ("c080", "fffd fffd"),
        ("e08080", "fffd fffd fffd"),
        ("f4908080", "fffd fffd fffd fffd"),
        ("f09f9a80c3bc", "1f680 00fc"),
    ],
)
def test_what_is_not_utf_8_is_replaced_as_java_replaces_it(raw: str, code_points: str) -> None:
    text = replacing_text(bytes.fromhex(raw))
    assert " ".join(f"{ord(character):04x}" for character in text) == code_points

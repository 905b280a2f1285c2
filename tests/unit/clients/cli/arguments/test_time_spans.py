"""Retentions on the command line: what is refused, and with which error."""

from __future__ import annotations

import pytest
from offsetd_clients.cli.arguments.time_spans import parse_retention


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("999999999999w", "'999999999999w' is too long"),
        ("soon", "'soon' is not a time like 45s, 30m, 12h or 7d, nor 'never' or 'default'"),
    ],
)
def test_error_of_a_wrong_retention(text: str, error: str) -> None:
    with pytest.raises(ValueError, match="is ") as caught:
        parse_retention(text)
    assert str(caught.value) == error

"""A test of a promise fails once its sentence has left the page."""

from __future__ import annotations

import pytest
from promised import promised_by

PAGE = "docs/guides/resetting-a-group-safely.md"


def test_a_sentence_may_be_broken_elsewhere_but_not_be_gone() -> None:
    tried = []

    @promised_by(PAGE)("Without `--execute`\n   nothing is changed.")
    def there() -> None:
        tried.append("there")

    @promised_by(PAGE)("Without `--execute` nothing is changed.", "With it, nothing either.")
    def gone() -> None:
        tried.append("gone")

    there()
    with pytest.raises(AssertionError, match=r"With it, nothing either\."):
        gone()
    assert tried == ["there"]

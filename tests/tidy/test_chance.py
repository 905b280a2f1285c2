"""What the commit chooses, and what the night does not leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import chance

if TYPE_CHECKING:
    import pytest

CASES = list(range(20))


def test_the_same_commit_chooses_the_same_and_others_all_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OFFSETD_NIGHTLY", raising=False)
    seen = set()
    for seed in range(100):
        monkeypatch.setattr(chance, "session_seed", lambda seed=seed: seed)
        chosen = chance.chosen("cases", CASES, 3)
        assert chosen == chance.chosen("cases", CASES, 3) == sorted(set(chosen))
        assert len(chosen) == 3
        seen.update(chosen)
    assert seen == set(CASES)


def test_the_night_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSETD_NIGHTLY", "1")
    assert chance.chosen("cases", CASES, 3) == CASES

"""What tests do at random, by one number: the same commit does the same again.

`OFFSETD_TEST_SEED` sets the number. At night it is drawn. Otherwise the checked out commit gives
it, so that each commit tries something else, and a failure in CI can be repeated.
"""

from __future__ import annotations

import os
import random
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Case = TypeVar("Case")
_ROOT = Path(__file__).parents[1]


@cache
def session_seed() -> int:
    """32 bits. Workers that run side by side get the same, but for nights without a given one."""
    given = os.environ.get("OFFSETD_TEST_SEED")
    if given:
        return int(given)
    if os.environ.get("OFFSETD_NIGHTLY"):
        return random.SystemRandom().getrandbits(32)
    return int(tree() or "0", 16) % 2**32


def seed_of(*names: object) -> int:
    """One test's own number; a test prints it, so that its failure can be repeated."""
    seed = random.Random(f"{session_seed()} {names}").getrandbits(32)
    print(f"OFFSETD_TEST_SEED={session_seed()}")
    return seed


def chosen(name: str, cases: Sequence[Case], count: int) -> list[Case]:
    """So many of the cases, for what takes long: the commit chooses them. At night, all."""
    if os.environ.get("OFFSETD_NIGHTLY"):
        return list(cases)
    places = random.Random(seed_of(name)).sample(range(len(cases)), count)
    return [cases[place] for place in sorted(places)]


@cache
def tree() -> str:
    """The hash of the checked out tree, hexadecimal; empty without git."""
    command = ["git", "rev-parse", "HEAD^{tree}"]
    asked = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    return asked.stdout.strip()

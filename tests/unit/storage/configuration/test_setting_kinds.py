"""Kinds of settings: what each takes as text, shows, and allows."""

from __future__ import annotations

import enum
import math
import re

import pytest
from offsetd_storage.configuration.setting_kinds import (
    Address,
    Choice,
    Flag,
    Kind,
    Listed,
    Real,
    Text,
    Whole,
)


class Fruit(enum.Enum):
    APPLE = 1
    PEAR = 2


FRUITS = {"apple": Fruit.APPLE, "pear": Fruit.PEAR}
WHOLE = Whole(least=-1, most=10, is_optional=False)
UNBOUND = Whole(least=None, most=10, is_optional=True)
REAL = Real(least=0, most=1, excludes_least=False)
ABOVE = Real(least=0, most=1e308, excludes_least=True)
ONE = Choice(names=FRUITS, is_set=False)
SOME = Choice(names=FRUITS, is_set=True)
NUMBERS = Listed(values=(1, 3, 4))
WORDS = Listed(values=("auto", "true", "false"))
ADDRESS = Address(may_be_empty=False)


@pytest.mark.parametrize(
    ("kind", "text", "value", "shown"),
    [
        (WHOLE, "10", 10, "10"),
        (WHOLE, "+1_0", 10, "10"),
        (WHOLE, "-1", -1, "-1"),
        (UNBOUND, "-11", -11, "-11"),
        (REAL, "0", 0.0, "0.0"),
        (REAL, "1e-1", 0.1, "0.1"),
        (REAL, ".5", 0.5, "0.5"),
        (ABOVE, "1e6", 1e6, "1000000.0"),
        (Flag(), "True", True, "true"),
        (Flag(), "false", False, "false"),
        (ONE, "pear", Fruit.PEAR, "pear"),
        (SOME, "pear", frozenset((Fruit.PEAR,)), "pear"),
        (SOME, "pear , apple", frozenset(Fruit), "apple,pear"),
        (SOME, "", frozenset(), ""),
        (NUMBERS, "3", 3, "3"),
        (WORDS, "true", "true", "true"),
        (Text(), "anything = goes", "anything = goes", "anything = goes"),
        (ADDRESS, "localhost:0", "localhost:0", "localhost:0"),
        (ADDRESS, ":65535", ":65535", ":65535"),
        (ADDRESS, "[::1]:1", "[::1]:1", "[::1]:1"),
        (ADDRESS, "unix:/run/a", "unix:/run/a", "unix:/run/a"),
        (ADDRESS, "unix-abstract:a", "unix-abstract:a", "unix-abstract:a"),
        (Address(may_be_empty=True), "", "", ""),
    ],
)
def test_a_value_is_read_and_shown(kind: Kind, text: str, value: object, shown: str) -> None:
    assert kind.parse(text) == value
    assert type(kind.parse(text)) is type(value)
    assert kind.allows(value)
    assert kind.render(value) == shown
    assert kind.parse(shown) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((WHOLE, text) for text in ("", "ten", "1.0", "1__0", "_1", "1_", "0x1", "\u0661", "1 0")),
        *((REAL, text) for text in ("", "nan", "inf", "1e", "0,5", "1_0", "\u0661")),
        *((Flag(), text) for text in ("", "1", "yes")),
        *((ONE, text) for text in ("", "Pear", "apple,pear")),
        *((SOME, text) for text in ("Pear", "apple,", "apple pear")),
        *((NUMBERS, text) for text in ("", "2", "03")),
        *((WORDS, text) for text in ("", "True", "perhaps")),
    ],
)
def test_what_is_no_such_value_is_refused(kind: Kind, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        kind.parse(text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((WHOLE, value) for value in (-2, 11, None, 1.0, True, "1")),
        *((UNBOUND, value) for value in (-12, 11, False)),
        *((REAL, value) for value in (-0.1, 1.1, math.nan, math.inf, True, "1")),
        *((ABOVE, value) for value in (0, -1, math.inf)),
        *((Flag(), value) for value in (1, "true", None)),
        *((ONE, value) for value in ("pear", 2, None)),
        *((SOME, value) for value in (Fruit.PEAR.value, {Fruit.PEAR}, frozenset(("pear",)))),
        *((NUMBERS, value) for value in (2, "3", True, 1.0)),
        *((WORDS, value) for value in (True, "on")),
        *((Text(), value) for value in (1, None)),
        *((ADDRESS, value) for value in ("", "a", "a:", "a:65536", "a:-1", "::1:1", "a b:1", None)),
        *((ADDRESS, value) for value in ("a:\u0661", "http://a:1", "[a]:1:")),
    ],
)
def test_what_is_out_of_bounds_is_not_allowed(kind: Kind, value: object) -> None:
    assert not kind.allows(value)


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        (WHOLE, "a whole number from -1 to 10"),
        (UNBOUND, "a whole number up to 10"),
        (REAL, "a number from 0 to 1"),
        (ABOVE, "a number above 0"),
        (Flag(), "true or false"),
        (ONE, "one of apple, pear"),
        (SOME, "a list out of apple, pear"),
        (NUMBERS, "one of 1, 3, 4"),
        (WORDS, "one of auto, true, false"),
        (Text(), "text"),
        (ADDRESS, "HOST:PORT, port 0 to 65535"),
        (Address(may_be_empty=True), "HOST:PORT, port 0 to 65535, or nothing"),
    ],
)
def test_a_kind_says_what_is_allowed(kind: Kind, allowed: str) -> None:
    assert kind.allowed == allowed


def test_a_number_that_is_not_set_is_shown_as_nothing() -> None:
    assert UNBOUND.allows(None)
    assert UNBOUND.render(None) == ""

"""How a token is named beside "Log out"."""

from __future__ import annotations

import base64
import json

import pytest
from offsetd_clients.web.token_names import token_name


def _coded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _jwt(**claims: object) -> str:
    return f"{_coded('{}')}.{_coded(json.dumps(claims))}.{_coded('signature')}"


@pytest.mark.parametrize(
    ("token", "named"),
    [
        (f"offsetd_0123456789abcdef_{'s' * 43}", "with token 0123456789abcdef"),
        (_jwt(sub="1b2c", preferred_username="alice"), "with a token of alice"),
        (_jwt(sub="é\u202e"), "with a token of é\u202e"),
        (_jwt(sub=7, preferred_username=""), ""),
        (f"a.{_coded('[1]')}.c", ""),
        (f"a.{_coded('[' * 5000)}.c", ""),
        ("a.b.c", ""),
        ("opaque", ""),
    ],
)
def test_a_token_is_named_by_what_is_public_in_it(token: str, named: str) -> None:
    assert token_name(token) == named

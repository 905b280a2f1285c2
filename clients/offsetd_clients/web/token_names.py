"""What a token tells of itself, so that viewers see with which one they have logged in."""

import base64
import json
import re
from typing import Final

# The id of a token is public: `offsetd admin tokens list` shows it with its principal.
_OWN: Final = re.compile(r"offsetd_([0-9a-f]{16})_.+")
_JWT_PARTS: Final = 3
# A person knows the first of these; every JSON web token of a provider has the second.
_CLAIMS: Final = ("preferred_username", "sub")


def token_name(token: str) -> str:
    """A name for a token that the server has accepted; empty if it tells none.

    Of a JSON web token, the server may take its principal from another claim.
    """
    own = _OWN.fullmatch(token)
    if own:
        return f"with token {own[1]}"
    claims = _claims(token)
    named = (claims.get(name) for name in _CLAIMS)
    found = next((each for each in named if isinstance(each, str) and each), "")
    return f"with a token of {found}" if found else ""


def _claims(token: str) -> dict[str, object]:
    """The claims of a JSON web token; none if it is not one."""
    parts = token.split(".")
    if len(parts) != _JWT_PARTS:
        return {}
    try:
        text = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}

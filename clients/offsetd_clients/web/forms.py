"""Forms as browsers send them: read with a bound, and only in the one usual content type."""

from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import Request

CONTENT_TYPE = "application/x-www-form-urlencoded"
BODY_BYTES_MAX = 256 * 1024
_FIELDS_MAX = 2000


def is_form(headers: Headers) -> bool:
    """Whether a request says that its body is such a form."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == CONTENT_TYPE


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a request's body. Raises ValueError if it is too large or is no form."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise ValueError(f"the form has more than {BODY_BYTES_MAX:,} bytes")
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=_FIELDS_MAX,
        )
    except ValueError:
        raise ValueError("the form cannot be read") from None
    return fields_of(pairs)


def fields_of(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Fields by name. The values of a repeated field become lines of one value.

    Browsers end the lines of a form with CR LF, whatever was in it.
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        plain = value.replace("\r\n", "\n")
        found[name] = f"{found[name]}\n{plain}" if name in found else plain
    return found

"""Whether a certificate and a key, as PEM, belong together.

If they do not, each call would fail as if the server were away: gRPC's only message is that its
security handshaker cannot be made.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO

# The last text is OpenSSL's message for a key of another type than the certificate's.
_OTHER_KEY = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")


def check_key_pair(certificate: bytes, key: bytes) -> None:
    """Raises ValueError if no connection can use them. The text has no part of them.

    If OpenSSL only finds a pair too weak, gRPC and the server decide. They also decide if the
    system has no place for a file, because `ssl` reads only files.
    """
    import ssl  # noqa: PLC0415  # Only clients with a certificate need it.

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        with _as_file(certificate) as certificate_path, _as_file(key) as key_path:
            # Without `password`, OpenSSL would ask at the terminal for the password of a key.
            context.load_cert_chain(certificate_path, key_path, password="")
    except ssl.SSLError as error:
        if error.reason in _OTHER_KEY:
            raise ValueError("key: it is not the key of the certificate") from None
        if error.reason is not None:
            return
    except OSError:
        return
    else:
        return
    try:
        context.load_verify_locations(cadata=certificate.decode("ascii", "ignore"))
    except ssl.SSLError:
        raise ValueError("certificate: it has no certificate in PEM") from None
    has_password = b"ENCRYPTED" in key
    raise ValueError(f"key: {'it has a password' if has_password else 'it has no key in PEM'}")


@contextlib.contextmanager
def _as_file(pem: bytes) -> Iterator[str]:
    """A path of a file with these bytes. It is in memory if possible, because a key is secret."""
    is_in_memory = hasattr(os, "memfd_create")
    with _memory_file() if is_in_memory else tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}" if is_in_memory else file.name


def _memory_file() -> IO[bytes]:
    return os.fdopen(os.memfd_create("pem"), "wb")

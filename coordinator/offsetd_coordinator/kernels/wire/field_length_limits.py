"""Limits of the fields that requests share, for the kernels that read requests and for
`messages.validation`.

They are in the package `kernels` because the kernels are compiled with their values.
"""

from __future__ import annotations

from typing import Final

GROUP_ID_BYTES_MAX: Final = 32_767
"""Bytes of UTF-8. Kafka's schemas give the length of a string 16 bits, with a sign."""
TOPIC_UNITS_MAX: Final = 249
"""UTF-16 units, as Kafka counts them."""
METADATA_BYTES_MAX: Final = 32_767
"""Bytes of UTF-8, as for a group id. `offset.metadata.max.bytes` limits metadata further."""
REQUEST_ID_BYTES_MAX: Final = 64
"""Bytes of UTF-8."""

"""How long tests wait for what takes a moment: a minute, so that a busy machine fails none."""

from __future__ import annotations

import os
from typing import Final

# A planted bug may be noticed by waiting in vain, which need not last as long.
PATIENCE_SECONDS: Final = float(os.environ.get("OFFSETD_TEST_PATIENCE_SECONDS", "60"))

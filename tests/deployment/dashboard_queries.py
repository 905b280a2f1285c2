"""The queries of the dashboards, as Grafana would send them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from deployment.prometheus_server import JOB, SECONDS_MAX
from deployment.tools import DEPLOY
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Collection

    from deployment.prometheus_server import Prometheus

FOLDER: Final = DEPLOY / "grafana"
_VARIABLES: Final = {"$job": JOB, "$instance": ".*", "$__rate_interval": "20s"}


def queries(name: str) -> dict[str, str]:
    """By panel and legend; of one file."""
    found = {}
    for panel in json.loads((FOLDER / name).read_text())["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for variable, value in _VARIABLES.items():
                text = text.replace(variable, value)
            assert "$" not in text
            found[f"{panel['title']}: {target['legendFormat']}"] = text
    return found


def wait_for_values(
    prometheus: Prometheus, name: str, *, except_panels: Collection[str] = ()
) -> None:
    """Returns once each query of a file has data. Fails and names those that never have."""
    left = {
        legend: text
        for legend, text in queries(name).items()
        if legend.partition(":")[0] not in except_panels
    }

    def is_done() -> bool:
        for legend in [each for each, text in left.items() if prometheus.has_values(text)]:
            del left[legend]
        return not left

    try:
        poll(is_done, SECONDS_MAX)
    except AssertionError:
        raise AssertionError(f"{name}: no data for {left}") from None

"""Grafana's model of a dashboard, from a table of panels."""

import re
from typing import Any, Final

from deploy.dashboards.panels import Dashboard, Panel

# The first version with this schema is Grafana 10.
SCHEMA_VERSION: Final = 38
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN: Final = 'job="$job",instance=~"$instance"'
_METRIC: Final = re.compile(r"\b((?:offsetd|process)_\w+)(?:\{([^}]*)\})?")
_COLUMNS: Final = 24
_GRAPH: Final = (8, 8)  # Width and height.
_STAT: Final = (4, 4)


def query(text: str) -> str:
    """A query of a table, for the chosen servers."""

    def chosen(match: re.Match[str]) -> str:
        labels = ",".join(filter(None, (CHOSEN, match[2])))
        return f"{match[1]}{{{labels}}}"

    return _METRIC.sub(chosen, text).replace("[R]", "[$__rate_interval]")


def model(dashboard: Dashboard) -> dict[str, Any]:
    """What Grafana imports."""
    return {
        "uid": f"offsetd-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["offsetd"],
        "schemaVersion": SCHEMA_VERSION,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": _variables()},
        "links": [
            {"type": "dashboards", "tags": ["offsetd"], "title": "offsetd", "asDropdown": True}
        ],
        "panels": _placed(dashboard),
    }


def _variables() -> list[dict[str, Any]]:
    def label(name: str, metric: str, **more: object) -> dict[str, Any]:
        text = f"label_values({metric}, {name})"
        found = {"name": name, "label": name, "type": "query", "datasource": DATASOURCE}
        return {**found, "query": text, "refresh": 2, "sort": 1, **more}

    return [
        {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"},
        label("job", "offsetd_serving"),
        label(
            "instance",
            'offsetd_serving{job="$job"}',
            multi=True,
            includeAll=True,
            allValue=".*",
            current={"text": "All", "value": "$__all"},
        ),
    ]


def _placed(dashboard: Dashboard) -> list[dict[str, Any]]:
    """From left to right, and then below."""
    placed = []
    x = y = row_height = 0
    for number, each in enumerate(dashboard.panels, 1):
        width, height = _STAT if each.is_stat else _GRAPH
        if x + width > _COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        position = {"x": x, "y": y, "w": width, "h": height}
        placed.append({"id": number, "gridPos": position, **_panel(each)})
        x, row_height = x + width, max(row_height, height)
    return placed


def _panel(panel: Panel) -> dict[str, Any]:
    made = {
        "type": "stat" if panel.is_stat else "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": query(text), "legendFormat": legend}
            for number, (legend, text) in enumerate(panel.queries.items())
        ],
    }
    if not panel.is_stat:
        made["options"] = {"tooltip": {"mode": "multi"}}
        made["fieldConfig"]["defaults"]["custom"] = {"axisSoftMin": 0}
    return made

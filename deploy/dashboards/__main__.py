"""Writes the dashboards to deploy/grafana: `make dashboards`."""

import json
from pathlib import Path
from typing import Final

from deploy.dashboards.grafana import model
from deploy.dashboards.panels import DASHBOARDS

FOLDER: Final = Path(__file__).parents[1] / "grafana"


def files() -> dict[str, str]:
    """The text of each file, by its name."""
    return {
        f"{each.name}.json": json.dumps(model(each), indent=1, ensure_ascii=False) + "\n"
        for each in DASHBOARDS
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")

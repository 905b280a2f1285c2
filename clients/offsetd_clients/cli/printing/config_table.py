"""Settings of a server as rows."""

import sys
from collections.abc import Iterable

from offsetd_clients.admin_values import ConfigSetting
from offsetd_clients.cli.printing.terminal import OutputFormat, Row, Terminal

CONFIG_COLUMNS = ("name", "value", "source", "default", "unit", "dynamic")
LONG_CONFIG_COLUMNS = (*CONFIG_COLUMNS, "allowed", "description", "problem")
_NO_LIMIT = repr(sys.float_info.max)
CONFIG_DROPPABLE = ("dynamic", "default", "unit", "source")


def print_config(settings: Iterable[ConfigSetting], terminal: Terminal, *, long: bool) -> None:
    """Prints the settings; `long` also prints what they mean."""
    rows: Iterable[Row] = map(_config_row, settings)
    if terminal.output_format is OutputFormat.TABLE:
        rows = map(_with_no_limit, rows)
    if long:
        terminal.rows(LONG_CONFIG_COLUMNS, rows)
    else:
        terminal.rows(CONFIG_COLUMNS, rows, droppable=CONFIG_DROPPABLE)


def _with_no_limit(row: Row) -> Row:
    """The row for a table: the largest number, Kafka's way to say "no limit", in words."""
    return {name: "no limit" if value == _NO_LIMIT else value for name, value in row.items()}


def _config_row(setting: ConfigSetting) -> Row:
    return {
        "name": setting.name,
        "value": setting.value,
        "source": str(setting.source),
        "default": setting.default_value,
        "unit": setting.unit or None,
        "dynamic": setting.is_dynamic,
        "allowed": setting.allowed_values,
        "description": setting.description,
        "problem": setting.problem or None,
    }

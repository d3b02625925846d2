"""``flinknet config``: a look at the configuration."""

from __future__ import annotations

import json
import os
from pathlib import Path

import typer
from rich import box
from rich.table import Table

import flinknet
from flinknet.cli.arguments import AsJson, ConfigFile
from flinknet.cli.console import table_console
from flinknet.config.loading import Settings, load_settings, options
from flinknet.errors import ConfigurationError

__all__ = ["config_app"]

config_app = typer.Typer(
    help="Inspect the configuration.", no_args_is_help=True, rich_markup_mode=None
)


@config_app.command("show")
def show(
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show every option's effective value and where it comes from."""
    settings = load_settings(config, os.environ, {})
    if as_json:
        print(json.dumps(_settings_json(settings), indent=2))
    else:
        table_console().print(_settings_table(settings))


@config_app.command("template")
def template() -> None:
    """Print a configuration file with every option at its default, explained."""
    print(_template().read_text(encoding="utf-8"), end="")


def _template() -> Path:
    """Return the path of the template.

    It is inside the installed package, or beside the package in a source tree.
    """
    package = Path(flinknet.__file__).parent
    places = [above / "deploy" / "cluster.toml" for above in (package, package.parent)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise ConfigurationError(
            f"the template {places[0]} is missing: the installation is not complete, install "
            "flinknet again"
        )
    return found


def _settings_json(settings: Settings) -> dict[str, dict[str, object]]:
    return {
        name: {"value": settings.value(name), "origin": origin.kind, "source": origin.source}
        for name, origin in settings.origins.items()
    }


def _settings_table(settings: Settings) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("option", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("origin", overflow="fold")
    for name, origin in settings.origins.items():
        style = "dim" if origin.kind == "default" else "bold"
        table.add_row(name, options()[name].render(settings.value(name)), str(origin), style=style)
    return table

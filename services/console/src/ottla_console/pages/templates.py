"""The templates: everything that is shown is escaped, whatever a cluster tells."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ottla_console.pages.static_files import StaticFile
from ottla_console.pages.visit import cluster_address
from ottla_console.views import numbers
from ottla_console.views.exact_pattern import exact_pattern

FOLDER: Final = Path(__file__).parent.parent / "templates"


def template_environment(files: Mapping[str, StaticFile], navigation: object) -> Environment:
    """Return the environment of all templates; a name that is missing fails, and so is noticed."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(
        static={name: each.address for name, each in files.items()}, navigation=navigation, address=cluster_address
    )
    environment.filters.update(
        count=numbers.count_text,
        bytes=numbers.bytes_text,
        rate=numbers.rate_text,
        bytes_change=numbers.bytes_change_text,
        span=numbers.span_text,
        bytes_rate=numbers.bytes_rate_text,
        exact_pattern=exact_pattern,
        segment=lambda text: quote(text, safe=""),
    )
    return environment

"""Words and names that generators choose from, out of `words.json`."""

import json
from pathlib import Path

_LISTS: dict[str, list[str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

FIRST_NAMES = tuple(_LISTS["first_names"])
LAST_NAMES = tuple(_LISTS["last_names"])
CITIES = tuple(_LISTS["cities"])
COUNTRIES = tuple(_LISTS["countries"])
WORDS = tuple(_LISTS["words"])

EMAIL_DOMAINS = ("example.com", "example.net", "example.org")
"""Reserved for examples (RFC 2606), so that nobody gets mail."""

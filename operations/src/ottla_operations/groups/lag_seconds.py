"""For how long records have waited for groups, off the pages of metrics of group coordinators.

Kafka's protocol does not tell it; Ottla's coordinators do, as `ottla_coordinator_group_lag_seconds`. A page that does
not answer, or has none of it, tells nothing. `read_lag_seconds` is pure.
"""

import re
import ssl
import time
import urllib.request
from collections.abc import Iterable
from http.client import HTTPException

TIMEOUT_S = 2.0
ALL_WITHIN_S = 6.0
PAGE_BYTES_MAX = 16 << 20
_LINE = re.compile(
    r'^ottla_coordinator_group_lag_seconds\{group="((?:[^"\\]|\\.)*)",topic="((?:[^"\\]|\\.)*)"\} ([0-9.e+-]+)$',
    re.MULTILINE,
)
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

LagSeconds = dict[tuple[str, str], float]
"""Seconds by group and topic."""


def ask_lag_seconds(urls: Iterable[str]) -> LagSeconds:
    """Return what pages of metrics tell; pages that are not reached within `ALL_WITHIN_S` are left out."""
    found: LagSeconds = {}
    until_s = time.monotonic() + ALL_WITHIN_S
    for url in urls:
        if url.startswith(("http://", "https://")) and time.monotonic() < until_s - TIMEOUT_S:
            for place, seconds in read_lag_seconds(_page(url)).items():
                found[place] = max(seconds, found.get(place, 0.0))
    return found


def read_lag_seconds(page: str) -> LagSeconds:
    """Return what a page of metrics tells."""
    return {(_plain(group), _plain(topic)): float(number) for group, topic, number in _LINE.findall(page)}


def _plain(label: str) -> str:
    return re.sub(r"\\.", lambda match: _ESCAPES.get(match[0], match[0]), label)


def _page(url: str) -> str:
    """Fetch a page directly, whatever proxy the environment names; empty where that fails."""
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl.create_default_context())]
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=TIMEOUT_S) as response:
            return bytes(response.read(PAGE_BYTES_MAX)).decode(errors="replace")
    except (OSError, HTTPException, ValueError):
        return ""

"""What etcd's members tell of themselves over HTTP: their release, their room, and whether they take changes.

A member's `/metrics` and `/health` are at its client URL, and at `--listen-metrics-urls` where etcd asks clients for
certificates. `read_member` is pure.
"""

import json
import re
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException

from ottla_operations.errors import OperationError
from ottla_operations.url_redaction import without_login

TIMEOUT_S = 3.0
PAGE_BYTES_MAX = 16 << 20
NO_SPACE = "ALARM NOSPACE"


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdMember:
    """A member of etcd, as it tells.

    Attributes:
        url: where it was asked.
        problem: why it did not answer; None if it did, and then the rest is known.
        version: for example (3, 5, 16); None if it does not tell.
        has_leader: whether the members have elected one of them, as far as this one knows.
        takes_changes: False once it has been at its quota, until somebody takes the alarm back.
        size_bytes: of its database, with room in it that is free.
        quota_bytes: at which size it refuses changes; 0 if it does not tell.
    """

    url: str
    problem: str | None = None
    version: tuple[int, ...] | None = None
    has_leader: bool = True
    takes_changes: bool = True
    size_bytes: int = 0
    quota_bytes: int = 0


def ask_member(url: str) -> EtcdMember:
    """Return what a member tells.

    Raises:
        OperationError: this is no URL of an etcd.
    """
    if not url.startswith(("http://", "https://")):
        raise OperationError(f"--etcd {url}: write it as http://HOST:PORT")
    try:
        metrics, health = _page(f"{url.rstrip('/')}/metrics"), _page(f"{url.rstrip('/')}/health")
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        return EtcdMember(url=without_login(url), problem=str(reason) or type(error).__name__)
    member = read_member(without_login(url), metrics, health)
    if member.version is None and not member.quota_bytes:
        raise OperationError(f"--etcd {without_login(url)}: what answers there is no etcd")
    return member


def read_member(url: str, metrics: str, health: str) -> EtcdMember:
    """Return what two pages of a member say."""
    version = re.search(r'^etcd_server_version\{server_version="(\d+)\.(\d+)\.(\d+)', metrics, re.MULTILINE)
    try:
        reason = str(json.loads(health).get("reason", ""))
    except (ValueError, AttributeError):
        reason = ""
    return EtcdMember(
        url=url,
        version=tuple(int(part) for part in version.groups()) if version else None,
        has_leader=_value(metrics, "etcd_server_has_leader", 1) == 1,
        takes_changes=NO_SPACE not in reason,
        size_bytes=_value(metrics, "etcd_mvcc_db_total_size_in_bytes", 0),
        quota_bytes=_value(metrics, "etcd_server_quota_backend_bytes", 0),
    )


def _page(url: str) -> str:
    """Fetch a page directly, whatever proxy the environment names; a health page that says no is one, too."""
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl.create_default_context())]
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=TIMEOUT_S) as response:
            return bytes(response.read(PAGE_BYTES_MAX)).decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return bytes(error.read(PAGE_BYTES_MAX)).decode(errors="replace")


def _value(metrics: str, name: str, default: int) -> int:
    found = re.search(rf"^{name} ([0-9.e+]+)$", metrics, re.MULTILINE)
    return int(float(found[1])) if found else default

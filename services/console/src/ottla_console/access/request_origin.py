"""Whether a request comes from a page of the console itself, and by a name of the console. Pure.

A page of another site can make a browser send requests with the user's cookie, or have a name of its own resolve to
this machine. So a change needs the browser's word that a page of this origin asks for it, and each request needs a
host that is this console's.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from ottla_core.rest.settings import Listener

READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def allowed_hosts(listeners: Sequence[Listener], public_url: str | None) -> frozenset[str] | None:
    """Return the host names by which the console may be asked; None for any.

    A console that listens beyond this machine cannot know all of its names unless `public.url` says it.
    """
    if public_url is not None:
        return frozenset({urlsplit(public_url).hostname or "", *LOCAL_NAMES})
    return LOCAL_NAMES if all(each.host in LOCAL_NAMES for each in listeners) else None


def problem_of_host(host_header: str, allowed: frozenset[str] | None) -> str | None:
    """Return why the console does not answer to a host; None if it does."""
    try:
        host = urlsplit(f"//{host_header}").hostname
    except ValueError:
        host = None
    if not host:
        return "the request names no host"
    if allowed is not None and host not in allowed:
        return f"the console does not answer to the name {host[:200]}; see the setting public.url"
    return None


def problem_of_origin(method: str, headers: Mapping[str, str], public_url: str | None) -> str | None:
    """Return why a change is refused for where it comes from; None if it may be carried out.

    Args:
        method: of the request.
        headers: by their names in lower case.
        public_url: the URL by which browsers reach the console, if that is not the `host` header's.
    """
    if method in READING_METHODS:
        return None
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        return "a page of another site asked for it"
    if origin is None:
        return None if site == "same-origin" else "the request does not say which page asks for it"
    own = {headers.get("host", "")} | ({urlsplit(public_url).netloc} if public_url else set())
    return None if urlsplit(origin).netloc in own else "a page of another site asked for it"

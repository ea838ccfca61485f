"""URLs and bodies with placeholders such as `${topic}`. Pure."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote, unquote_plus, urlsplit

_PLACEHOLDER = re.compile(r"\$\{(?P<name>[^}]*)\}")
_DOTS = frozenset({".", ".."})


class Unfit(ValueError):
    """A value cannot stand in a URL; the message says why."""


def placeholders(template: str) -> set[str]:
    """Return the names of a template's placeholders."""
    return {match["name"] for match in _PLACEHOLDER.finditer(template)}


def fill_url(template: str, values: Mapping[str, Any]) -> str:
    """Return a URL with values in it, quoted so that none of them can be more than one part of its path or query.

    Raises:
        Unfit: a value is None, is no text or number, or would change the path.
    """
    return _PLACEHOLDER.sub(lambda match: quote(as_text(match["name"], values[match["name"]]), safe=""), template)


def fill_json(template: str, values: Mapping[str, Any]) -> str:
    """Return a JSON text with values in it; texts are escaped, the quotes around them are the template's."""

    def written(match: re.Match[str]) -> str:
        value = values[match["name"]]
        return json.dumps(value)[1:-1] if isinstance(value, str) else json.dumps(value)

    return _PLACEHOLDER.sub(written, template)


def as_text(name: str, value: Any) -> str:
    """Return a value as a part of a URL, not quoted yet.

    Raises:
        Unfit: it is None, no text or number, or would change the path.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            value = bytes(value).decode()
        except UnicodeDecodeError:
            raise Unfit(f"the {name} is bytes that are no UTF-8") from None
    if not isinstance(value, str | int | float):
        what = "there is no" if value is None else f"a {type(value).__name__} is no text for the"
        raise Unfit(f"{what} {name}, which the URL needs")
    text = str(value)
    if text in _DOTS:
        raise Unfit(f"the {name} is {text!r}, which would lead elsewhere in a URL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit(f"the {name} is no valid text") from None
    return text


def shown_url(url: str) -> str:
    """Return a URL for messages: without user, password and fragment, and only with the names of what its query says.

    Keys stand in queries, and messages go to logs, statuses and dead letter topics.
    """
    try:
        parts = urlsplit(url)
        pairs = (pair.partition("=") for pair in parts.query.split("&") if pair)
        query = "&".join(f"{name}=…" if equals else "…" for name, equals, _ in pairs)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query, fragment="").geturl()
    except ValueError:
        return "a malformed URL"


def without_parameter(url: str, name: str) -> str:
    """Return a URL without a parameter of its query; what else it says is as it was."""
    before, mark, behind = url.partition("?")
    query, hash_mark, fragment = behind.partition("#")
    kept = "&".join(pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) != name)
    return f"{before}{mark if kept else ''}{kept}{hash_mark}{fragment}"


def url_problem(template: str, known: Collection[str]) -> str | None:
    """Return what is wrong with a URL's template; None if nothing is.

    Args:
        template: the URL, with placeholders.
        known: the names that placeholders may have.
    """
    if unknown := sorted(placeholders(template) - set(known)):
        names = ", ".join(f"${{{name}}}" for name in sorted(known)) or "none"
        return f"there is no placeholder ${{{unknown[0]}}}; there are: {names}"
    try:
        parts = urlsplit(_PLACEHOLDER.sub("0", template))
        has_port = parts.port != 0
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "must begin with http:// or https:// and a host"
    if not has_port:
        return "0 is no port"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user name or password; use http.auth"
    if _PLACEHOLDER.search(template.split("://", 1)[1].split("/", 1)[0]):
        return "must not have placeholders before the path"
    return None

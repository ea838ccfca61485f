"""Addresses of schema registries: what people type, as the URLs that the registry's client asks for. Pure."""

from urllib.parse import urlsplit

from ottla_operations.errors import UsageProblem

SCHEME_DEFAULT = "http"


def registry_url(addresses: str) -> str:
    """Return addresses as URLs: ``127.0.0.1:8081`` is ``http://127.0.0.1:8081``; what has a scheme stays as it is.

    Args:
        addresses: one or several with commas between, each ``[USER:PASSWORD@]HOST[:PORT][/PATH]`` or a URL.

    Raises:
        UsageProblem: one of them is empty, has no host, or has a port that is none. The message says which one by its
            number, as a password may stand in it, even in a wrong place.
    """
    urls = [_with_scheme(entry) for entry in addresses.split(",")]
    for number, url in enumerate(urls, start=1):
        problem = _problem(url)
        if problem is not None:
            raise UsageProblem(
                f"--schema-registry: address {number} of {len(urls)} {problem}; "
                "write HOST:PORT or a URL, several with commas between"
            )
    return ",".join(urls)


def _with_scheme(entry: str) -> str:
    return entry if "://" in entry else f"{SCHEME_DEFAULT}://{entry.strip()}"


def _problem(url: str) -> str | None:
    try:
        parts = urlsplit(url.strip())
        _ = parts.port  # raises ValueError if it is no number
    except ValueError:
        return "has a port that is no number up to 65535, or an IPv6 address without its brackets"
    return None if parts.hostname else "is empty or has no host"

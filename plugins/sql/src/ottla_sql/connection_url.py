"""Understands `connection.url`: SQLAlchemy's URLs, and the commonest of Java's.

`jdbc:postgresql:`, `jdbc:mysql:`, `jdbc:mariadb:` and `jdbc:sqlite:` are translated, with those of their parameters
that have a counterpart in the Python driver; any other parameter is refused, for silence might mean a connection
without encryption. A URL that names no driver gets the one of this plugin's extras.
"""

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, unquote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

DRIVERS: Mapping[str, str] = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
"""The driver for a URL without one."""

_JDBC = "jdbc:"


class InvalidUrl(ValueError):
    """The URL cannot be used; the message says why, without showing a password."""


def database_url(text: str, user: str | None = None, password: str | None = None) -> URL:
    """Return SQLAlchemy's URL for what a user wrote.

    Args:
        text: a URL of SQLAlchemy's or of JDBC's.
        user: goes before the URL's own.
        password: goes before the URL's own.

    Raises:
        InvalidUrl: it cannot be used.
    """
    text = text.strip()
    if text.lower().startswith(_JDBC):
        url = _from_jdbc(text[len(_JDBC) :])
    else:
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            raise InvalidUrl(
                "is neither a URL of SQLAlchemy (such as postgresql://HOST:5432/DATABASE) nor a jdbc: URL"
            ) from None
    if url.drivername in DRIVERS:
        url = url.set(drivername=DRIVERS[url.drivername])
    if user:
        url = url.set(username=user)
    if password:
        url = url.set(password=password)
    return url


def _from_jdbc(text: str) -> URL:
    kind, colon, rest = text.partition(":")
    kind = kind.lower()
    if kind == "sqlite" and colon:
        return URL.create("sqlite", database=unquote(rest) or None)
    if kind not in _PARAMETERS:
        raise InvalidUrl(
            f"jdbc:{kind}: URLs cannot be translated (jdbc:postgresql:, jdbc:mysql:, jdbc:mariadb: and jdbc:sqlite: "
            "can); write a URL of SQLAlchemy, such as oracle+oracledb://HOST:1521/?service_name=NAME"
        )
    place, _, query = rest.partition("?")
    if place.startswith("//"):
        authority, _, database = place[2:].partition("/")
    else:
        authority, database = "", place
    settings = dict(parse_qsl(query, keep_blank_values=True))
    user, password = settings.pop("user", None), settings.pop("password", None)
    if "@" in authority:
        raise InvalidUrl("a jdbc: URL has no user before the host; use connection.user and connection.password")
    hosts = [_host(each) for each in authority.split(",")] if authority else []
    translated: dict[str, str | tuple[str, ...]] = dict(_translated(kind, settings))
    if len(hosts) > 1:
        if kind != "postgresql":
            raise InvalidUrl("several hosts are possible with PostgreSQL only")
        translated["host"] = tuple(f"{host}:{port or 5432}" for host, port in hosts)
    host, port = hosts[0] if len(hosts) == 1 else (None, None)
    return URL.create(
        DRIVERS[kind],
        username=user,
        password=password,
        host=host,
        port=port,
        database=unquote(database) or None,
        query=translated,
    )


def _host(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, ""
    if port and not port.isdigit():
        raise InvalidUrl(f"the port of {text!r} is not a number")
    return host.strip("[]") or "localhost", int(port) if port else None


def _same(name: str) -> Callable[[str], tuple[str, str]]:
    return lambda value: (name, value)


def _seconds(value: str) -> tuple[str, str]:
    return "connect_timeout", value


def _milliseconds(value: str) -> tuple[str, str]:
    return "connect_timeout", str(max(1, int(value) // 1000))


def _search_path(value: str) -> tuple[str, str]:
    return "options", f"-csearch_path={value}"


def _postgresql_ssl(value: str) -> tuple[str, str]:
    return "sslmode", "verify-full" if value.lower() in ("", "true") else "prefer"


def _character_set(value: str) -> tuple[str, str]:
    return "charset", "utf8mb4" if value.lower().replace("-", "") in ("utf8", "utf8mb4") else value


_SESSION_ATTRIBUTES = {"primary": "primary", "master": "primary", "secondary": "standby", "slave": "standby"}
_MYSQL_PARAMETERS: Mapping[str, Callable[[str], tuple[str, str]]] = {
    "characterEncoding": _character_set,
    "connectTimeout": _milliseconds,
    "socketTimeout": lambda value: ("read_timeout", str(max(1, int(value) // 1000))),
}
_PARAMETERS: Mapping[str, Mapping[str, Callable[[str], tuple[str, str]]]] = {
    "postgresql": {
        "sslmode": _same("sslmode"),
        "ssl": _postgresql_ssl,
        "sslrootcert": _same("sslrootcert"),
        "sslcert": _same("sslcert"),
        "sslkey": _same("sslkey"),
        "sslpassword": _same("sslpassword"),
        "ApplicationName": _same("application_name"),
        "connectTimeout": _seconds,
        "loginTimeout": _seconds,
        "currentSchema": _search_path,
        "options": _same("options"),
        "targetServerType": lambda value: ("target_session_attrs", _SESSION_ATTRIBUTES.get(value, value)),
    },
    "mysql": _MYSQL_PARAMETERS,
    "mariadb": _MYSQL_PARAMETERS,
}


def _translated(kind: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    known = _PARAMETERS[kind]
    if unknown := [name for name in settings if name not in known]:
        raise InvalidUrl(
            f"the parameter {', '.join(unknown)} of a jdbc:{kind}: URL cannot be translated (known are user, "
            f"password, {', '.join(known)}); write a URL of SQLAlchemy ({DRIVERS[kind]}://…) with the Python "
            "driver's own parameters"
        )
    try:
        return dict(known[name](value) for name, value in settings.items())
    except ValueError:
        raise InvalidUrl("a timeout is not a number") from None

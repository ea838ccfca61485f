"""Names for the shell's completion: topics, groups, connectors, profiles, processes with logs.

Somebody waits at a prompt: whatever is not known within a second is not offered, and nothing that fails is told.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

WITHIN_S = 1.0
ASKED_WITHIN_S = 0.8
"""Less than the whole, as the client is imported and connects as well."""
NAMES_MAX = 500


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the topics whose names begin so; internal ones only after an underscore."""

    def ask() -> Iterable[str]:
        found = _admin_client(ctx).list_topics(timeout=ASKED_WITHIN_S).topics
        return (name for name in found if incomplete.startswith("_") or not name.startswith("__"))

    return in_time(ask, incomplete)


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the consumer groups whose names begin so."""

    def ask() -> Iterable[str]:
        client = _admin_client(ctx)
        # Groups are asked of every broker, of which a new client learns at its leisure unless it is asked for topics.
        client.list_topics(timeout=ASKED_WITHIN_S)
        listed = client.list_consumer_groups(request_timeout=ASKED_WITHIN_S).result()
        return (group.group_id for group in listed.valid)

    return in_time(ask, incomplete)


def connectors(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the connectors whose names begin so."""

    def ask() -> Iterable[str]:
        from ottla.connect.connect_client import URL_DEFAULT, URL_VARIABLE  # noqa: PLC0415

        return list(_of_worker(_address(ctx, "url", URL_VARIABLE, URL_DEFAULT), "/connectors") or ())

    return in_time(ask, incomplete)


def flows(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the mirrors' flows whose names begin so."""

    def ask() -> Iterable[str]:
        from ottla.mirror.mirror_client import URL_DEFAULT, URL_VARIABLE  # noqa: PLC0415

        found = _of_worker(_address(ctx, "url", URL_VARIABLE, URL_DEFAULT), "/flows")
        return [each["name"] for each in found or ()]

    return in_time(ask, incomplete)


def profiles(incomplete: str) -> list[str]:
    """Return the profiles whose names begin so."""

    def ask() -> Iterable[str]:
        from ottla.profiles.profile_store import read_profiles  # noqa: PLC0415

        return read_profiles().by_name

    return in_time(ask, incomplete)


def logged_processes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the processes with a log, and their roles, whose names begin so."""

    def ask() -> Iterable[str]:
        from ottla.local.cluster_directory import ClusterDirectory, default_directory  # noqa: PLC0415
        from ottla.local.log_files import processes_of  # noqa: PLC0415

        directory = ctx.params.get("directory")
        names = processes_of(ClusterDirectory(Path(directory) if directory else default_directory()).logs)
        return {*names, *(name.rpartition("-")[0] for name in names if "-" in name)}

    return in_time(ask, incomplete)


def in_time(ask: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    """Return the names that begin so, in order, as far as they are known in time."""
    found: list[str] = []

    def look() -> None:
        with suppress(Exception):  # a message would stand in the middle of what is being typed
            found.extend(sorted(name for name in ask() if name.startswith(incomplete))[:NAMES_MAX])

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(WITHIN_S)
    return list(found)


def _of_worker(urls: str, path: str) -> Any:
    """Return what the first of several workers has at a path; None if that is no URL."""
    from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener  # noqa: PLC0415 - for a shell only

    from ottla_sdk.worker_access import worker_access  # noqa: PLC0415

    url = urls.partition(",")[0].strip().rstrip("/")
    if not url.startswith(("http://", "https://")):
        return None
    access = worker_access(urls, os.environ)
    tls = [HTTPSHandler(context=access.tls())] if url.startswith("https:") else []
    asked = Request(f"{url}{path}", headers=access.headers)  # noqa: S310 - its scheme was looked at
    with build_opener(ProxyHandler({}), *tls).open(asked, timeout=ASKED_WITHIN_S) as answer:
        return json.load(answer)


def _admin_client(ctx: typer.Context) -> "AdminClient":
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    from ottla.kafka_client import BOOTSTRAP_DEFAULT, client_config  # noqa: PLC0415

    bootstrap = _address(ctx, "bootstrap", "OTTLA_BOOTSTRAP", BOOTSTRAP_DEFAULT)
    return AdminClient(client_config(bootstrap, ctx.params.get("properties")))


def _address(ctx: typer.Context, parameter: str, variable: str, default: str) -> str:
    """Return what was typed, else what the environment or the profile says, else the default."""
    from ottla.profiles.profile_choice import choose_profile  # noqa: PLC0415

    # The callback of the whole command, which chooses the profile, is not called for a completion.
    root = ctx.find_root()
    named = root.get_parameter_source("profile")
    choose_profile(root.params.get("profile"), is_typed=named is not None and named.name == "COMMANDLINE")
    source = ctx.get_parameter_source(parameter)
    if source is not None and source.name == "COMMANDLINE":
        return str(ctx.params[parameter])
    return os.environ.get(variable) or default

"""What commands of links ask of a cluster, and how a first copy is watched."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ottla.kafka_client import client_config, parse_assignments
from ottla.mirror.duration_text import duration_text
from ottla.output import progress_bar
from ottla.typed_secrets import warn_of_kept_secrets
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.kafka_access import check_reachable
from ottla_operations.links.link_standing import WORKING, fails, status_of_links
from ottla_operations.quantities import counted

if TYPE_CHECKING:
    from ottla.mirror.link_source import LinkSource
    from ottla_core.cluster.controller_rpc.link_api import LinkKeeping
    from ottla_core.cluster.state.model import Link
    from ottla_operations.links.link_admin import LinkAdmin

LOOK_INTERVAL_S: Final = 0.5
IN_STEP_WITHIN_S: Final = 20.0
"""So long a failure of groups or settings may take to pass by itself, as until the topic of groups is made."""
PASSING: Final = frozenset({*WORKING, "WAITING", "NO_LEADER"})

PROVIDERS: Final = {
    "config.providers": "env,file",
    "config.providers.env.class": "EnvVarConfigProvider",
    "config.providers.file.class": "FileConfigProvider",
}

ALL_GROUPS: Final = (".*",)

LinkName = Annotated[str, typer.Argument(metavar="LINK", help="The link's name.")]
LinkNames = Annotated[list[str], typer.Argument(metavar="LINK", help="One or more links.")]
LinksOrAll = Annotated[list[str] | None, typer.Argument(metavar="LINK", show_default="all", help="The links.")]
TopicPatterns = Annotated[
    list[str],
    typer.Option("--topics", metavar="PATTERN", help="Topics to follow, a regular expression; repeatable."),
]
LinkSourceProperties = Annotated[
    list[str] | None,
    typer.Option(
        "--source-property",
        "--source-X",
        metavar="KEY=VALUE",
        callback=warn_of_kept_secrets,
        help="Client setting for the source, kept in the cluster: secrets as ${provider:path:key}, which brokers "
        "look up by their config.providers; repeatable.",
    ),
]


def link_admin(bootstrap: str, properties: Sequence[str] | None) -> "LinkAdmin":
    """Return what asks the cluster that follows.

    Raises:
        OperationError: nobody answers there, or a setting cannot be used.
    """
    from ottla_operations.links.link_admin import LinkAdmin  # noqa: PLC0415 - help has no use for connections

    return LinkAdmin(bootstrap, client_config(bootstrap, properties))


def kept_now(admin: "LinkAdmin", names: Sequence[str]) -> "Sequence[LinkKeeping]":
    """Have links brought in step with their sources now, and return how that went."""
    from ottla_core.client.links import keep_links  # noqa: PLC0415

    return admin.ask(keep_links(names)).keepings


def keep_in_step(admin: "LinkAdmin", names: Sequence[str]) -> None:
    """Have links brought in step now, and again for a while if something fails; the status tells what is left."""
    until_s = time.monotonic() + IN_STEP_WITHIN_S
    while any(map(fails, kept_now(admin, names))) and time.monotonic() < until_s:
        time.sleep(LOOK_INTERVAL_S)


def link_property_settings(assignments: Sequence[str] | None) -> dict[str, str]:
    """Return the properties of a link that were given.

    Raises:
        UsageProblem: one is no KEY=VALUE, or none of a link.
    """
    from ottla_core.cluster.state.link_properties import link_properties  # noqa: PLC0415
    from ottla_core.errors import InvalidRequest  # noqa: PLC0415

    found = parse_assignments(assignments or (), "--set")
    try:
        link_properties(found)
    except InvalidRequest as error:
        raise UsageProblem(f"--set {error.message}") from None
    return found


def watch_until_here(admin: "LinkAdmin", name: str) -> None:
    """Show the copy until everything of the source is here; what cannot follow ends it.

    Raises:
        OperationError: a partition needs somebody's decision.
    """
    began_s, first = time.monotonic(), None
    with progress_bar("rate", "left") as bar:
        task = bar.add_task(f"{name}: asking the source", total=None, rate="", left="")
        while True:
            partitions = status_of_links(admin, [name]).partitions
            if stopped := [each for each in partitions if each.state not in PASSING]:
                each = stopped[0]
                raise OperationError(
                    f"{each.topic}-{each.index} does not follow: {each.state} {each.reason}".rstrip()
                )
            total = sum(max(0, each.source_end_offset) for each in partitions)
            here = sum(max(0, each.log_end_offset) for each in partitions)
            if all(each.lag == 0 for each in partitions):
                return
            first = here if first is None else first
            rate = (here - first) / max(time.monotonic() - began_s, LOOK_INTERVAL_S)
            bar.update(
                task,
                description=f"{name}: {counted(max(0, total - here), 'record')} to copy",
                total=max(1, total),
                completed=here,
                rate=f"{rate:,.0f} records/s",
                left=f"{duration_text((total - here) / rate)} left" if rate > 0 else "",
            )
            time.sleep(LOOK_INTERVAL_S)


def source_settings(properties: Sequence[str] | None) -> dict[str, str]:
    """Return the settings as links keep them: under librdkafka's names, with their references.

    Raises:
        UsageProblem: one is no KEY=VALUE, or cannot be used.
    """
    from ottla_sdk.kafka.client_settings import (  # noqa: PLC0415
        ClientRules,
        ClientSettingError,
        librdkafka_settings,
    )

    settings = parse_assignments(properties or (), "--source-property")
    if "bootstrap.servers" in settings:
        raise UsageProblem("--source-property bootstrap.servers: name brokers with --source")
    try:
        return librdkafka_settings(settings, ClientRules())
    except ClientSettingError as error:
        raise UsageProblem("; ".join(f"--source-property {each}" for each in error.problems)) from None


def looked_up(settings: dict[str, str]) -> dict[str, str]:
    """Return settings with the values of their references on this machine, as brokers look them up on theirs.

    Raises:
        OperationError: a reference leads nowhere here.
    """
    from ottla_broker.links.link_settings import resolver  # noqa: PLC0415
    from ottla_core.errors import ConfigurationError  # noqa: PLC0415

    try:
        return dict(resolver(PROVIDERS)(settings))
    except ConfigurationError as error:
        raise OperationError(f"{error} (on this machine; the command asks the source, too)") from None


def look_at(link: "Link", replication_factor: int | None) -> "LinkSource":
    """Ask a link's source, with the references looked up here as brokers do.

    Raises:
        OperationError: it does not answer, or a reference leads nowhere here.
    """
    from ottla.mirror.link_source import look_at_source  # noqa: PLC0415
    from ottla_core.cluster.controller_rpc.link_api import USE_DEFAULT  # noqa: PLC0415

    plain = looked_up(dict(link.settings))
    address = ",".join(link.bootstrap_servers)
    check_reachable(address, {**plain, "bootstrap.servers": address}, address_option="--source")
    return asyncio.run(look_at_source(link, plain, replication_factor or USE_DEFAULT))

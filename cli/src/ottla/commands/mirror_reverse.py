"""`ottla mirror link reverse`: the former source follows the cluster that was promoted."""

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from ottla.errors import CommandError
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json, client_config, split_address
from ottla.mirror.link_questions import LinkName, link_admin, look_at, looked_up, source_settings, watch_until_here
from ottla.output import note, print_json, print_table

if TYPE_CHECKING:
    from ottla.mirror.link_source import LinkSource
    from ottla.mirror.tails import Tail


def reverse(
    *,
    name: LinkName,
    source: Annotated[
        str, typer.Option("--source", metavar="HOST:PORT[,…]", help="Brokers of the promoted cluster.")
    ],
    topics: Annotated[
        list[str],
        typer.Option("--topics", metavar="PATTERN", help="Topics to follow, a regular expression; repeatable."),
    ],
    source_properties: Annotated[
        list[str] | None,
        typer.Option(
            "--source-property",
            "--source-X",
            metavar="KEY=VALUE",
            help="As with `ottla mirror link create`; repeatable.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the copy, and return when it is done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Have a former source follow the cluster that was promoted, after what it has alone was shown.

    Each partition is cut where the histories part. What it has behind that, which was acknowledged here and never
    copied, is written to files beside the logs of its brokers first, `set-aside-*.log`. Asks at a terminal.

    [bold]Examples[/bold]

      ottla mirror link reverse back --source east-1:9092 --topics 'orders.*' -b west-1:9092
    """
    from ottla.mirror.link_source import check_patterns  # noqa: PLC0415 - help has no use for connections
    from ottla_core.client.links import create_link, follow_existing_topics  # noqa: PLC0415
    from ottla_core.cluster.link_api import NewLink  # noqa: PLC0415
    from ottla_core.cluster.model import Link  # noqa: PLC0415

    check_patterns(topics, "--topics")
    admin = link_admin(bootstrap, properties)
    servers = tuple(each.strip() for each in source.split(","))
    settings = source_settings(source_properties)
    found = look_at(servers, settings, topics, None)
    if not found.topics:
        raise CommandError("the source cluster has no such topics")
    tails = _tails(found, servers, settings, bootstrap, properties)
    if not as_json:
        _print_tails(tails)
    alone = sum(each.records for each in tails)
    if not yes and sys.stdin.isatty():
        typer.confirm(
            f"Cut {alone:,} records that only {bootstrap} has, once they are written aside?", abort=True, err=True
        )
    link = Link(
        name=name,
        id=uuid4(),
        source_cluster_id=found.cluster_id,
        bootstrap_servers=servers,
        settings=settings,
        topics=tuple(topics),
    )
    admin.ask(create_link(NewLink(link=link, source_links=found.links)))
    results = admin.ask(follow_existing_topics(name, found.topics))
    if as_json:
        print_json({"link": name, "tails": [_document(each) for each in tails], "topics": [
            {"topic": each.topic, "error": each.error_message} for each in results]})  # fmt: skip
    for each in results:
        if each.error_message:
            note(f"ottla: {each.topic} does not follow: {each.error_message}")
        elif not as_json:
            print(f"{each.topic} follows")
    if wait:
        watch_until_here(admin, name)
    if any(each.error_message for each in results):
        raise typer.Exit(1)


def _tails(
    found: "LinkSource",
    servers: Sequence[str],
    settings: dict[str, str],
    bootstrap: str,
    properties: Sequence[str] | None,
) -> "list[Tail]":
    """Return what this cluster has alone, by partition."""
    from ottla.mirror.sides import reader_of  # noqa: PLC0415
    from ottla.mirror.tails import find_tails  # noqa: PLC0415
    from ottla_core.errors import OttlaError  # noqa: PLC0415

    for each in servers:
        split_address(each, "--source")
    there = reader_of(",".join(servers), looked_up(settings), "source")
    here = reader_of(bootstrap, client_config(bootstrap, properties), "target")
    try:
        return asyncio.run(find_tails(there, here, [each.name for each in found.topics]))
    except OttlaError as error:
        raise CommandError(str(error)) from None


def _print_tails(tails: "Sequence[Tail]") -> None:
    print_table(
        ["topic", "partition#", "common up to#", "end here#", "only here#"],
        [(each.topic, each.partition, each.common_end, each.end, each.records) for each in tails],
    )


def _document(tail: "Tail") -> dict[str, Any]:
    return {
        "topic": tail.topic,
        "partition": tail.partition,
        "common_end": tail.common_end,
        "end": tail.end,
        "only_here": tail.records,
    }

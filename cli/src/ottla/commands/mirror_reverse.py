"""`ottla mirror link reverse`: the former source follows the cluster that was promoted."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.confirmation import Yes, ask_or_refuse
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json, client_config
from ottla.mirror.link_requests import (
    LinkName,
    LinkSourceProperties,
    TopicPatterns,
    link_admin,
    looked_up,
    watch_until_here,
)
from ottla.output import note, print_json, print_table
from ottla_operations.errors import OperationError

if TYPE_CHECKING:
    from ottla.mirror.diverged_tails import Tail
    from ottla.mirror.link_source import LinkSource
    from ottla_core.cluster.state.model import Link


def reverse(
    *,
    name: LinkName,
    source: Annotated[
        str, typer.Option("--source", metavar="HOST:PORT[,…]", help="Brokers of the promoted cluster.")
    ],
    topics: TopicPatterns,
    source_properties: LinkSourceProperties = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the copy, and return when it is done.")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Have a former source follow the cluster that was promoted, after what it has alone was shown.

    Each partition is cut where the histories part. What it has behind that, which was acknowledged here and never
    copied, is written to files beside the logs of its brokers first, `set-aside-*.log`. Asks first; without a
    terminal it needs --yes.

    [bold]Examples[/bold]

      ottla mirror link reverse back --source east-1:9092 --topics 'orders.*' -b west-1:9092
    """
    from ottla.mirror.new_link import link_and_source  # noqa: PLC0415 - help has no use for connections
    from ottla_core.client.links import create_link, follow_existing_topics  # noqa: PLC0415
    from ottla_core.cluster.controller_rpc.link_api import NewLink  # noqa: PLC0415

    admin = link_admin(bootstrap, properties)
    link, found = link_and_source(name, source, topics, source_properties)
    if not found.topics:
        raise OperationError("the source cluster has no such topics")
    tails = _tails(link, found, bootstrap, properties)
    if not as_json:
        _print_tails(tails)
    alone = sum(each.records for each in tails)
    question = f"Cut {alone:,} records that only {bootstrap} has, once they are written aside?"
    ask_or_refuse(question, yes=yes, refusal="nothing was reversed")
    matching = tuple(each.name for each in found.topics)
    admin.ask(create_link(NewLink(link=link, matching_topics=matching, source_links=found.links, existing=True)))
    results = admin.ask(follow_existing_topics(name, found.topics))
    if as_json:
        print_json({"link": name, "tails": [_document(each) for each in tails], "topics": [
            {"topic": each.topic, "error": each.error_message} for each in results]})  # fmt: skip
    for each in results:
        if each.error_message:
            note(f"ottla: {each.topic} does not follow: {each.error_message}")
        elif not as_json:
            print(f"{each.topic} follows")
    if alone:
        note("groups that have read more here than both have in common go back to where the histories part")
    if wait:
        watch_until_here(admin, name)
    if any(each.error_message for each in results):
        raise typer.Exit(1)


def _tails(link: "Link", found: "LinkSource", bootstrap: str, properties: Sequence[str] | None) -> "list[Tail]":
    """Return what this cluster has alone, by partition."""
    from ottla.mirror.diverged_tails import find_tails  # noqa: PLC0415
    from ottla_core.errors import OttlaError  # noqa: PLC0415
    from ottla_operations.mirror.comparing import reader_of  # noqa: PLC0415

    there = reader_of(",".join(link.bootstrap_servers), looked_up(dict(link.settings)), "source")
    here = reader_of(bootstrap, client_config(bootstrap, properties), "target")
    try:
        return asyncio.run(find_tails(there, here, [each.name for each in found.topics]))
    except OttlaError as error:
        raise OperationError(str(error)) from None


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

"""`ottla mirror link`: topics that follow those of another cluster, offset by offset."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.errors import CommandError
from ottla.kafka_client import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    ClientProperties,
    Json,
)
from ottla.mirror.link_questions import (
    WORKING,
    LinkName,
    LinksOrAll,
    described_links,
    link_admin,
    look_at,
    status_of_links,
    watch_until_here,
)
from ottla.output import note, print_json, print_table

if TYPE_CHECKING:
    from ottla.mirror.link_admin import LinkAdmin
    from ottla.mirror.link_source import LinkSource
    from ottla_core.cluster.link_api import DescribedLink, PartitionStatus

PROBLEMS_SHOWN_MAX = 50


def create(
    *,
    name: LinkName,
    source: Annotated[str, typer.Option("--source", metavar="HOST:PORT[,…]", help="Brokers of the source cluster.")],
    topics: Annotated[
        list[str],
        typer.Option("--topics", metavar="PATTERN", help="Topics to follow, a regular expression; repeatable."),
    ],
    groups: Annotated[
        list[str] | None,
        typer.Option("--groups", metavar="PATTERN", help="Consumer groups whose offsets go along; repeatable."),
    ] = None,
    source_properties: Annotated[
        list[str] | None,
        typer.Option(
            "--source-property",
            "--source-X",
            metavar="KEY=VALUE",
            help="Client setting for the source, kept in the cluster: secrets as ${provider:path:key}, which brokers "
            "look up by their config.providers; repeatable.",
        ),
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, show_default="the cluster's", help="Replicas of each partition here.")
    ] = None,
    throttle_rate: Annotated[
        int | None,
        typer.Option("--throttle", min=1, metavar="BYTES/S", show_default="none", help="The most of each broker."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the first copy, and return when it is done.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Link to another cluster: topics here follow its topics, with the same names, offsets and batches.

    They take no writes until they are promoted. Topics of those names must not exist here yet.

    [bold]Examples[/bold]

      ottla mirror link create west --source kafka-1:9092 --topics 'orders.*'

      ottla mirror link create west --source kafka-1:9092 --topics '.*' --groups '.*' --wait
    """
    from ottla.mirror.new_link import link_and_source  # noqa: PLC0415 - help has no use for connections
    from ottla_core.client.links import create_link  # noqa: PLC0415
    from ottla_core.cluster.link_api import NewLink  # noqa: PLC0415

    admin = link_admin(bootstrap, properties)
    link, found = link_and_source(
        name, source, topics, source_properties,
        groups=groups or (), bytes_per_second=throttle_rate, replication_factor=replication_factor,
    )  # fmt: skip
    matching = tuple(each.name for each in found.topics)
    admin.ask(create_link(NewLink(link=link, matching_topics=matching, source_links=found.links)))
    if not as_json:
        print(f"created {name}")
    failed = _follow(admin, name, found, (), as_json=as_json)
    if wait:
        watch_until_here(admin, name)
    if failed:
        raise typer.Exit(1)


def refresh(
    *,
    name: LinkName,
    replication_factor: Annotated[
        int | None,
        typer.Option(min=1, show_default="the cluster's", help="Replicas of each new partition."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Look for new topics and partitions of a link's source now. Mirror workers do so by themselves.

    [bold]Examples[/bold]

      ottla mirror link refresh west
    """
    admin = link_admin(bootstrap, properties)
    described = described_links(admin, [name])[0]
    link = described.link
    found = look_at(link.bootstrap_servers, dict(link.settings), link.topics, replication_factor)
    if found.cluster_id != link.source_cluster_id:
        raise CommandError(f"another cluster answers at {','.join(link.bootstrap_servers)}: {found.cluster_id}")
    if _follow(admin, name, found, described.topics, as_json=as_json):
        raise typer.Exit(1)


def list_(
    *, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, properties: ClientProperties = None, as_json: Json = False
) -> None:
    """List the links with their topics, and how far behind.

    [bold]Examples[/bold]

      ottla mirror link list
    """
    admin = link_admin(bootstrap, properties)
    links = described_links(admin, ())
    partitions = status_of_links(admin, ()).partitions
    documents = [_link_document(each, [p for p in partitions if p.link == each.link.name]) for each in links]
    if as_json:
        print_json(documents)
        return
    print_table(
        ["link", "source", "topics#", "partitions#", "not working#", "lag#", "throttle#", "state"],
        [
            (each["link"], each["source"], len(each["topics"]), each["partitions"], each["not_working"], each["lag"],
             each["throttle_bytes_per_second"] or "", "paused" if each["paused"] else "running")
            for each in documents
        ],
    )  # fmt: skip


def status(
    *,
    names: LinksOrAll = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show progress until everything is here.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Show how far linked partitions have come, and what keeps any from following; exits with 1 if something does.

    [bold]Examples[/bold]

      ottla mirror link status

      ottla mirror link status west --json
    """
    admin = link_admin(bootstrap, properties)
    if wait:
        for name in names or [each.link.name for each in described_links(admin, ())]:
            watch_until_here(admin, name)
    found = status_of_links(admin, names or ())
    if as_json:
        print_json([_partition_document(each) for each in found.partitions])
    else:
        print_table(
            ["link", "topic", "partition#", "state", "end#", "source's end#", "lag#", "missed#", "leader#"],
            [
                (each.link, each.topic, each.index, each.state, _known(each.log_end_offset),
                 _known(each.source_end_offset), _known(each.lag), each.records_missed, _known(each.leader))
                for each in found.partitions
            ],
        )  # fmt: skip
        for each in [p for p in found.partitions if p.reason][:PROBLEMS_SHOWN_MAX]:
            print(f"{each.topic}-{each.index}: {each.state}: {each.reason}")
    for broker in found.silent_brokers:
        note(f"ottla: broker {broker} did not answer")
    if any(each.state not in WORKING for each in found.partitions):
        raise typer.Exit(1)


def _follow(admin: "LinkAdmin", name: str, found: "LinkSource", there: Sequence[Any], *, as_json: bool) -> bool:
    """Create topics, and partitions of topics that are there; report, and return whether any was refused."""
    from ottla_core.client.links import add_linked_partitions, create_linked_topics  # noqa: PLC0415
    from ottla_core.cluster.link_api import MorePartitions  # noqa: PLC0415

    counts = {each.name: each.partition_count for each in there}
    new = [each for each in found.topics if each.name not in counts]
    grown = [
        MorePartitions(topic=name, source_leader_epochs=found.epochs(name))
        for name, count in counts.items()
        if len(found.epochs(name)) > count
    ]
    results = [("created", each) for each in (admin.ask(create_linked_topics(name, new)) if new else ())]
    results += [("grown", each) for each in (admin.ask(add_linked_partitions(grown)) if grown else ())]
    rows = [
        {"topic": each.topic, "status": "failed" if each.error_message else done, "error": each.error_message}
        for done, each in results
    ]
    if as_json:
        print_json(rows)
    for row in rows:
        if row["error"]:
            note(f"ottla: {row['topic']} does not follow: {row['error']}")
        elif not as_json:
            print(f"{row['topic']} follows" if row["status"] == "created" else f"{row['topic']} has more partitions")
    if not rows and not as_json:
        note("the source has no new topics or partitions that match")
    return any(row["error"] for row in rows)


def _link_document(described: "DescribedLink", partitions: "Sequence[PartitionStatus]") -> dict[str, Any]:
    link = described.link
    return {
        "link": link.name,
        "source": ",".join(link.bootstrap_servers),
        "source_cluster_id": link.source_cluster_id,
        "patterns": list(link.topics),
        "group_patterns": list(link.groups),
        "settings": dict(link.settings),
        "paused": link.paused,
        "throttle_bytes_per_second": link.bytes_per_second,
        "topics": [
            {"topic": each.name, "partitions": each.partition_count, "following": each.linked_count}
            for each in sorted(described.topics, key=lambda topic: topic.name)
        ],
        "partitions": len(partitions),
        "not_working": sum(each.state not in WORKING for each in partitions),
        "lag": sum(max(0, each.lag) for each in partitions),
    }


def _partition_document(status_: "PartitionStatus") -> dict[str, Any]:
    return {
        "link": status_.link,
        "topic": status_.topic,
        "partition": status_.index,
        "state": str(status_.state),
        "reason": status_.reason,
        "since_ms": status_.since_ms,
        "log_end_offset": status_.log_end_offset,
        "high_watermark": status_.high_watermark,
        "source_end_offset": status_.source_end_offset,
        "lag": status_.lag,
        "records_missed": status_.records_missed,
        "leader": status_.leader,
        "leader_epoch": status_.leader_epoch,
    }


def _known(number: int) -> str:
    return "?" if number < 0 else str(number)

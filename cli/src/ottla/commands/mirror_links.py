"""`ottla mirror link`: topics that follow those of another cluster, offset by offset."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.kafka_client import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    ClientProperties,
    Json,
)
from ottla.mirror.link_requests import (
    ALL_GROUPS,
    LinkName,
    LinksOrAll,
    LinkSourceProperties,
    TopicPatterns,
    keep_in_step,
    kept_now,
    link_admin,
    watch_until_here,
)
from ottla.output import note, print_json, print_table
from ottla_operations.errors import OperationError
from ottla_operations.links.link_standing import WORKING, described_links, fails, problem_lines, status_of_links

if TYPE_CHECKING:
    from ottla.mirror.link_source import LinkSource
    from ottla_core.cluster.controller_rpc.link_api import DescribedLink, LinkKeeping, PartitionStatus
    from ottla_operations.links.link_admin import LinkAdmin

PROBLEMS_SHOWN_MAX = 50


def create(
    *,
    name: LinkName,
    source: Annotated[str, typer.Option("--source", metavar="HOST:PORT[,…]", help="Brokers of the source cluster.")],
    topics: TopicPatterns,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            "--groups",
            metavar="PATTERN",
            show_default=".*",
            help="Consumer groups whose offsets go along; repeatable.",
        ),
    ] = None,
    link_settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="How brokers keep the link in step, such as refresh.topics.interval.seconds or topics.exclude; "
            "repeatable.",
        ),
    ] = None,
    source_properties: LinkSourceProperties = None,
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

    They take no writes until they are promoted. Topics of those names must not exist here yet. Brokers look by
    themselves for new topics and partitions that match, and take settings and offsets of groups along.

    [bold]Examples[/bold]

      ottla mirror link create west --source kafka-1:9092 --topics 'orders.*'

      ottla mirror link create west --source kafka-1:9092 --topics '.*' --set topics.exclude='test.*' --wait
    """
    from ottla.mirror.new_link import link_and_source  # noqa: PLC0415 - help has no use for connections
    from ottla_core.client.links import create_link  # noqa: PLC0415
    from ottla_core.cluster.controller_rpc.link_api import NewLink  # noqa: PLC0415

    admin = link_admin(bootstrap, properties)
    link, found = link_and_source(
        name, source, topics, source_properties,
        groups=groups or ALL_GROUPS, link_settings=link_settings, bytes_per_second=throttle_rate,
        replication_factor=replication_factor,
    )  # fmt: skip
    matching = tuple(each.name for each in found.topics)
    admin.ask(create_link(NewLink(link=link, matching_topics=matching, source_links=found.links)))
    if not as_json:
        print(f"created {name}")
    failed = _follow(admin, name, found, as_json=as_json)
    if wait:
        watch_until_here(admin, name)
    if failed:
        raise typer.Exit(1)


def refresh(
    *,
    name: LinkName,
    again: Annotated[
        list[str] | None,
        typer.Option("--again", metavar="TOPIC", help="Link a topic again that was promoted; repeatable."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Bring a link in step with its source now: topics, partitions, settings, offsets of groups.

    Brokers do so by themselves, every refresh.topics.interval.seconds and sync.group.offsets.interval.seconds.

    [bold]Examples[/bold]

      ottla mirror link refresh west

      ottla mirror link refresh west --again orders
    """
    from ottla_core.client.links import alter_link  # noqa: PLC0415
    from ottla_core.cluster.controller_rpc.link_api import LinkChange  # noqa: PLC0415

    admin = link_admin(bootstrap, properties)
    before = {each.name: each.partition_count for each in described_links(admin, [name])[0].topics}
    if again:
        admin.ask(alter_link(LinkChange(name=name, forgotten_promotions=tuple(again))))
    keepings = kept_now(admin, [name])
    described = described_links(admin, [name])[0]
    if not keepings:
        raise OperationError(f"no broker keeps {name} in step at the moment")
    (keeping,) = keepings
    grown = [
        (each.name, before.get(each.name))
        for each in described.topics
        if before.get(each.name) != each.partition_count
    ]
    if as_json:
        print_json({**keeping_document(keeping), "changed_topics": sorted(topic for topic, _ in grown)})
    else:
        for topic, count in sorted(grown):
            print(f"{topic} follows" if count is None else f"{topic} has more partitions")
        if described.link.paused:
            note(f"{name} is paused")
        elif not grown:
            note("the source has no new topics or partitions that match")
    for line in problem_lines(keeping):
        note(f"ottla: {line}")
    if fails(keeping):
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
    status_ = status_of_links(admin, ())
    keepings = {each.link: each for each in status_.keepings}
    documents = [
        _link_document(
            each, [p for p in status_.partitions if p.link == each.link.name], keepings.get(each.link.name)
        )
        for each in links
    ]
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
    wait: Annotated[
        bool, typer.Option("--wait", help="Show progress until everything is here, offsets of groups too.")
    ] = False,
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
        keep_in_step(admin, names or ())  # so that groups are where their consumers have stopped
    found = status_of_links(admin, names or ())
    if as_json:
        print_json(
            {
                "partitions": [_partition_document(each) for each in found.partitions],
                "keeping": [keeping_document(each) for each in found.keepings],
                "silent_brokers": list(found.silent_brokers),
            }
        )
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
        for line in [line for keeping in found.keepings for line in problem_lines(keeping)][:PROBLEMS_SHOWN_MAX]:
            print(line)
    for broker in found.silent_brokers:
        note(f"ottla: broker {broker} did not answer")
    if any(each.state not in WORKING for each in found.partitions) or any(map(fails, found.keepings)):
        raise typer.Exit(1)


def _follow(admin: "LinkAdmin", name: str, found: "LinkSource", *, as_json: bool) -> bool:
    """Create the topics; report, and return whether any was refused."""
    from ottla_core.client.links import create_linked_topics  # noqa: PLC0415

    results = admin.ask(create_linked_topics(name, found.topics)) if found.topics else ()
    if as_json:
        print_json(
            [
                {
                    "topic": each.topic,
                    "status": "failed" if each.error_message else "created",
                    "error": each.error_message,
                }
                for each in results
            ]
        )
    for each in results:
        if each.error_message:
            note(f"ottla: {each.topic} does not follow: {each.error_message}")
        elif not as_json:
            print(f"{each.topic} follows")
    if not results and not as_json:
        note("the source has no topics that match yet")
    return any(each.error_message for each in results)


def keeping_document(keeping: "LinkKeeping") -> dict[str, Any]:
    """Return how a link is kept in step, for JSON."""
    return {
        "link": keeping.link,
        "broker": keeping.broker,
        "failure": keeping.failure,
        "topics_in_step_ms": keeping.topics_ms,
        "groups_in_step_ms": keeping.groups_ms,
        "groups": keeping.groups,
        "problems": [
            {"kind": each.kind.value, "name": each.name, "reason": each.reason} for each in keeping.problems
        ],
        "problems_left_off": keeping.problems_left_off,
    }


def _link_document(
    described: "DescribedLink", partitions: "Sequence[PartitionStatus]", keeping: "LinkKeeping | None"
) -> dict[str, Any]:
    link = described.link
    return {
        "link": link.name,
        "source": ",".join(link.bootstrap_servers),
        "source_cluster_id": link.source_cluster_id,
        "patterns": list(link.topics),
        "group_patterns": list(link.groups),
        "settings": dict(link.settings),
        "properties": dict(link.properties),
        "promoted_topics": sorted(link.promoted_topics),
        "keeping": None if keeping is None else keeping_document(keeping),
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

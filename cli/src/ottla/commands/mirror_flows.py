"""`ottla mirror create`, `pause`, `resume`, `throttle`, `delete`: what flows there are, and whether they copy."""

from typing import Annotated, Any

import typer

from ottla.confirmation import Yes, ask_at_terminal
from ottla.kafka_client import Json, parse_assignments
from ottla.mirror.first_copy_progress import watch_until_copied
from ottla.mirror.mirror_client import URL_DEFAULT, FlowNames, MirrorUrl
from ottla.mirror.rate import in_words, parse_rate
from ottla.output import note, print_json
from ottla.sequential_actions import do_each
from ottla.typed_secrets import warn_of_kept_secrets
from ottla_operations.errors import UsageProblem
from ottla_operations.url_redaction import without_login
from ottla_operations.workers.mirror_client import MirrorClient, aliases_of, flow_path


def create(
    *,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="Aliases of source and target, as A->B.")],
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="HOST:PORT[,…]",
            help="Brokers of the source; not needed where the workers know its alias.",
        ),
    ] = None,
    source_properties: Annotated[
        list[str] | None,
        typer.Option(
            "--source-property",
            "--source-X",
            metavar="KEY=VALUE",
            callback=warn_of_kept_secrets,
            help="Client setting for the source, kept by the workers: secrets as ${provider:path:key}; repeatable.",
        ),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", metavar="PATTERN", help="Topics to copy, a regular expression; repeatable."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            "-c",
            metavar="KEY=VALUE",
            help="Setting of the flow by MirrorMaker 2's name, such as sync.group.offsets.enabled=true; repeatable.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the first copy, and return when it is done.")] = False,
    url: MirrorUrl = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Create a flow: its workers copy topics from a source to a target from now on.

    [bold]Examples[/bold]

      ottla mirror create 'west->east' --topics 'orders.*'

      ottla mirror create 'west->east' --source kafka-1:9092 --topics '.*' --wait
    """
    source_alias, target_alias = aliases_of(flow)
    source_settings = parse_assignments(source_properties or (), "--source-property")
    if "bootstrap.servers" in source_settings:
        raise UsageProblem("--source-property bootstrap.servers: name brokers with --source")
    if source is not None:
        source_settings["bootstrap.servers"] = source
    elif source_settings:
        raise UsageProblem("--source-property: settings belong to brokers, name them with --source")
    wanted = parse_assignments(settings or (), "--config")
    if topics:
        if "topics" in wanted:
            raise UsageProblem("--topics and --config topics=… say the same; leave one out")
        wanted["topics"] = ",".join(topics)
    client = MirrorClient(url)
    body = {"source": source_alias, "target": target_alias, "source_settings": source_settings, "settings": wanted}
    created = client.ask("POST", "/flows", body)
    if not as_json:
        print(f"created {created['name']}")
    if wait:
        lag = watch_until_copied(lambda: client.get(flow_path(flow, "lag")))
        if not as_json:
            print(f"{flow} has copied everything: {lag['source_records']:,} records")
    if as_json:
        print_json(created)


def pause(*, flows: FlowNames, url: MirrorUrl = URL_DEFAULT, as_json: Json = False) -> None:
    """Pause flows: nothing is copied until they are resumed.

    [bold]Examples[/bold]

      ottla mirror pause 'west->east'
    """
    _put(flows, url, "pause", "paused", as_json=as_json)


def resume(*, flows: FlowNames, url: MirrorUrl = URL_DEFAULT, as_json: Json = False) -> None:
    """Have flows go on that were paused.

    [bold]Examples[/bold]

      ottla mirror resume 'west->east'
    """
    _put(flows, url, "resume", "resumed", as_json=as_json)


def throttle(
    *,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow, as A->B.")],
    rate: Annotated[str, typer.Argument(metavar="BYTES/S", help="Of all workers together, or `none`.")],
    url: MirrorUrl = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Limit how many bytes a flow copies per second, by all workers together.

    [bold]Examples[/bold]

      ottla mirror throttle 'west->east' 20000000

      ottla mirror throttle 'west->east' none
    """
    limit = parse_rate(rate)
    client = MirrorClient(url)

    def limit_one(name: str) -> str:
        client.ask("PUT", flow_path(name, "throttle"), {"bytes_per_second": limit})
        return in_words(limit)

    do_each([flow], limit_one, "throttled", as_json=as_json, kind="flow")


def delete(
    *,
    flows: FlowNames,
    yes: Yes = False,
    url: MirrorUrl = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Delete flows. What they have copied stays, and one that is created again goes on. Asks at a terminal.

    [bold]Examples[/bold]

      ottla mirror delete 'west->east' --yes
    """
    client = MirrorClient(url)
    ask_at_terminal(f"Delete {', '.join(flows)} at {without_login(url)}?", yes=yes)

    def delete_one(name: str) -> str:
        client.ask("DELETE", flow_path(name))
        return "deleted"

    do_each(flows, delete_one, "deleted", as_json=as_json, kind="flow")


def group_list(
    *,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow, as A->B.")],
    url: MirrorUrl = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """List the source's groups whose offsets a flow translates, with their states.

    [bold]Examples[/bold]

      ottla mirror group list 'west->east'
    """
    from ottla.output import print_table  # noqa: PLC0415

    groups = MirrorClient(url).get(flow_path(flow, "groups"))
    if as_json:
        print_json(groups)
        return
    print_table(
        ["group", "state", "partitions#", "translated at", "reason"],
        [(each["group"], each["state"], each["partitions"], _time(each["checkpoint_ms"]), each["reason"])
         for each in groups],
    )  # fmt: skip


def group_sync(
    *,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow, as A->B.")],
    groups: Annotated[list[str], typer.Argument(metavar="GROUP", help="Consumer groups of the source.")],
    url: MirrorUrl = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Translate groups' offsets now, and say per partition what is not copied yet.

    For a switch of consumers to the target. Exits with 1 if a group's offsets are not its own at the target now, say
    because it has members there.

    [bold]Examples[/bold]

      ottla mirror group sync 'west->east' billing
    """
    from ottla.output import print_table  # noqa: PLC0415

    client = MirrorClient(url)
    results: list[dict[str, Any]] = [client.ask("POST", flow_path(flow, "groups", group, "sync")) for group in groups]
    if as_json:
        print_json(results)
    for result in results:
        if not as_json:
            print_table(
                ["group", "topic", "partition#", "source offset#", "at the target", "target offset#", "not copied#"],
                [(result["group"], each["topic"], each["partition"], each["source_offset"], each["remote_topic"],
                  each["target_offset"], each["records_not_copied"]) for each in result["partitions"]],
            )  # fmt: skip
        if not result["written"]:
            note(f"ottla: the offsets of {result['group']} were not written: {result['reason']}")
    if not all(result["written"] for result in results):
        raise typer.Exit(1)


def _time(milliseconds: int | None) -> str:
    from datetime import datetime  # noqa: PLC0415

    return "" if milliseconds is None else f"{datetime.fromtimestamp(milliseconds / 1000).astimezone():%F %T}"


def _put(flows: list[str], url: str, action: str, done: str, *, as_json: bool) -> None:
    client = MirrorClient(url)

    def put_one(name: str) -> str:
        client.ask("PUT", flow_path(name, action))
        return done

    do_each(flows, put_one, done, as_json=as_json, kind="flow")

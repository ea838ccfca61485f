"""`ottla mirror list`, `status`, `lag`: what flows do, and how far they are."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ottla.kafka_client import Json
from ottla.mirror.duration_text import duration_text
from ottla.mirror.first_copy_progress import watch_until_copied
from ottla.mirror.mirror_client import URL_DEFAULT, FlowsOrAll, MirrorUrl, wait_for_worker
from ottla.output import print_json, print_table
from ottla_operations.quantities import counted, human_bytes
from ottla_operations.workers.mirror_client import MirrorClient, existing_flows, flow_path

BAD_STATES = frozenset({"DEGRADED", "FAILED"})
BAD_PARTITIONS = frozenset({"HALTED", "WAITING", "UNASSIGNED"})
PROBLEMS_SHOWN_MAX = 50


def list_(*, url: MirrorUrl = URL_DEFAULT, as_json: Json = False) -> None:
    """List the flows with their states and lags, and what keeps any from its work; exits with 1 if something does.

    [bold]Examples[/bold]

      ottla mirror list
    """
    flows = MirrorClient(url).get("/flows")
    if as_json:
        print_json(flows)
    else:
        print_table(
            ["flow", "state", "topics#", "partitions#", "lag#", "throttle#", "origin"],
            [
                (each["name"], each["state"], each["topics"], each["partitions"], each["lag_records"],
                 _limit(each["throttle_bytes_per_second"]), each["origin"])
                for each in flows
            ],
        )  # fmt: skip
        _print_reasons(flows)
    if any(each["state"] in BAD_STATES for each in flows):
        raise typer.Exit(1)


def status(*, flows: FlowsOrAll = None, url: MirrorUrl = URL_DEFAULT, as_json: Json = False) -> None:
    """Show flows with their workers and topics, and what keeps any from its work; exits with 1 if something does.

    [bold]Examples[/bold]

      ottla mirror status

      ottla mirror status 'west->east' --json
    """
    client = MirrorClient(url)
    documents = [client.get(flow_path(name, "status")) for name in existing_flows(client, flows or ())]
    if as_json:
        print_json(documents)
    else:
        for document in documents:
            _print_status(document)
    if any(map(_has_problem, documents)):
        raise typer.Exit(1)


def lag(
    *,
    flows: FlowsOrAll = None,
    partitions: Annotated[bool, typer.Option("--partitions", help="Show each partition.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Show progress until the target has everything.")] = False,
    within_s: Annotated[
        float | None,
        typer.Option("--within", metavar="SECONDS", min=0.0, show_default="any time", help="How long --wait waits."),
    ] = None,
    url: MirrorUrl = URL_DEFAULT,
    as_json: Json = False,
) -> None:
    """Show how far targets are behind their sources, in records, bytes and time, and when they will have caught up.

    [bold]Examples[/bold]

      ottla mirror lag

      ottla mirror lag 'west->east' --partitions

      ottla mirror lag 'west->east' --wait --within 600
    """
    client = MirrorClient(url)
    if wait:
        wait_for_worker(client, within_s=within_s)
    names = existing_flows(client, flows or ())
    if wait:
        documents = [
            watch_until_copied(lambda name=name: client.get(flow_path(name, "lag")), within_s=within_s)  # type: ignore[misc]
            for name in names
        ]
    else:
        documents = [client.get(flow_path(name, "lag")) for name in names]
    if as_json:
        print_json(documents)
        return
    print_table(
        ["flow", "state", "lag#", "lag bytes#", "lag time#", "records/s#", "rate#", "left#", "unknown#"],
        [
            (each["name"], each["state"], each["lag_records"], human_bytes(each["lag_bytes"]),
             duration_text(each["lag_seconds"]), f"{each['records_per_second']:,.0f}",
             f"{human_bytes(each['bytes_per_second'])}/s",
             "" if each["seconds_left"] is None else duration_text(each["seconds_left"]), each["partitions_unknown"])
            for each in documents
        ],
    )  # fmt: skip
    if partitions:
        for each in documents:
            _print_partitions(each)


def _print_partitions(document: Mapping[str, Any]) -> None:
    print_table(
        ["topic", "partition#", "state", "at#", "end#", "lag#", "lag time#", "at the target", "at there#"],
        [
            (each["topic"], each["partition"], each["state"], each["source_position"], each["source_end"],
             each["lag_records"],
             "" if each["lag_seconds"] is None else duration_text(each["lag_seconds"]),
             each["remote_topic"], each["target_position"])
            for each in document["partitions"]
        ],
        title=document["name"],
    )  # fmt: skip


def _print_status(document: Mapping[str, Any]) -> None:
    limit = document["throttle_bytes_per_second"]
    print(
        f"{document['name']}: {document['state']}"
        + (", paused" if document["paused"] else "")
        + (f", at most {_limit(limit)}" if limit is not None else "")
        + (f": {document['reason']}" if document["reason"] else "")
    )
    print_table(
        ["worker", "partitions#", "leads"],
        [(each["worker_id"], each["partitions"], "yes" if each["leads"] else "") for each in document["workers"]],
    )
    by_topic: dict[str, list[Mapping[str, Any]]] = {}
    for each in document["partitions"]:
        by_topic.setdefault(each["topic"], []).append(each)
    print_table(
        ["topic", "at the target", "state", "partitions#", "copying#", "lag#", "missed#", "refused#"],
        [
            (each["topic"], each["remote_topic"], each["state"], each["partitions"],
             *_totals(by_topic.get(each["topic"], [])))
            for each in document["topics"]
        ],
    )  # fmt: skip
    for each in document["topics"]:
        if each["reason"]:
            print(f"{each['topic']}: {each['state']}: {each['reason']}")
    bad = [each for each in document["partitions"] if each["state"] in BAD_PARTITIONS]
    for each in bad[:PROBLEMS_SHOWN_MAX]:
        print(f"{each['topic']}-{each['partition']}: {each['state']}: {each['reason']}")
    if len(bad) > PROBLEMS_SHOWN_MAX:
        print(f"and {counted(len(bad) - PROBLEMS_SHOWN_MAX, 'more partition')}; --json shows all")
    # Workers of an earlier version do not say it.
    if unknown := sum(each.get("offsets_unknown", 0) for each in document["partitions"]):
        print(f"{counted(unknown, 'offset')} of the source cannot be translated: groups there repeat records")


def _totals(partitions: list[Mapping[str, Any]]) -> tuple[int, int, int, int]:
    """Return how many partitions copy, and records: the lag, those missed, those refused."""
    return (
        sum(each["state"] == "COPYING" for each in partitions),
        sum(each["lag_records"] or 0 for each in partitions),
        sum(each["records_missed"] for each in partitions),
        sum(each["records_refused"] for each in partitions),
    )


def _print_reasons(flows: list[Mapping[str, Any]]) -> None:
    for each in flows:
        if each["reason"]:
            print(f"{each['name']}: {each['state']}: {each['reason']}")


def _limit(bytes_per_second: int | None) -> str:
    return "" if bytes_per_second is None else f"{human_bytes(bytes_per_second)}/s"


def _has_problem(document: Mapping[str, Any]) -> bool:
    return document["state"] in BAD_STATES or any(each["state"] == "REFUSED" for each in document["topics"])

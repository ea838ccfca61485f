"""`ottla cluster`: its brokers, and where replicas and leaders are."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from ottla.cluster.cluster_connection import cluster_admin
from ottla.confirmation import ask_at_terminal
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json
from ottla.output import note, print_json, print_table
from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.cluster_view import ClusterView, describe_replicas
from ottla_operations.cluster.description import describe_cluster
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.groups.partition_selection import BadSelection, parse_selection, selected_partitions
from ottla_operations.quantities import human_bytes

PARTITIONS_SHOWN_MAX = 50


def describe(
    *, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, properties: ClientProperties = None, as_json: Json = False
) -> None:
    """Show brokers with their racks, replicas, leaders and disk, and the partitions that are not as they should be.

    Under-replicated partitions have replicas that lack records; offline ones cannot be read or written.

    [bold]Examples[/bold]

      ottla cluster describe

      ottla cluster describe --json
    """
    with cluster_admin(bootstrap, properties) as admin:
        view = admin.view()
        document = describe_cluster(view, admin.disks(view.brokers.values()), admin.moves(), *admin.controllers())
    if as_json:
        print_json(document)
    else:
        _print_cluster(document)


def elect_leaders(
    *,
    selection: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC[:PARTITION,…]…", show_default="all", help="The partitions; all of a topic without."
        ),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Where no in-sync replica is left, elect any live one. Loses records."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --unclean: do not ask.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Have partitions led by their preferred replica, the first one, if it is in sync.

    [bold]Examples[/bold]

      ottla cluster elect-leaders

      ottla cluster elect-leaders flights prices:0,3

      ottla cluster elect-leaders flights:2 --unclean
    """
    chosen = _parse_selection(selection or ())
    with cluster_admin(bootstrap, properties) as admin:
        names = _select(chosen, admin.view()) if chosen else None
        if unclean:
            lost = "the records that only lost replicas had"
            ask_at_terminal(f"An unclean election loses {lost}. Go on at {bootstrap}?", yes=yes)
        outcomes = admin.elect_leaders(names, unclean=unclean)
    results: list[dict[str, Any]] = []
    for name, refusal in sorted(outcomes.items()):
        is_needless = refusal is not None and refusal.is_needless
        status = "elected" if refusal is None else "not needed" if is_needless else "failed"
        error = None if refusal is None or is_needless else refusal.message
        results.append({"topic": name.topic, "partition": name.partition, "status": status, "error": error})
    _report_elections(results, as_json=as_json)


def _report_elections(results: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    elected = [each for each in results if each["status"] == "elected"]
    failed = [each for each in results if each["status"] == "failed"]
    if as_json:
        print_json(results)
    else:
        for each in elected:
            print(f"elected a leader for {each['topic']}-{each['partition']}")
        if not elected and not failed:
            print("no partition needed an election")
    for each in failed:
        note(f"ottla: no leader was elected for {each['topic']}-{each['partition']}: {each['error']}")
    if failed:
        raise typer.Exit(1)


def _parse_selection(texts: Sequence[str]) -> Mapping[str, frozenset[int]]:
    try:
        return parse_selection(texts)
    except BadSelection as error:
        raise UsageProblem(str(error)) from None


def _select(chosen: Mapping[str, frozenset[int]], view: ClusterView) -> list[TopicPartition]:
    try:
        return [TopicPartition(*name) for name in selected_partitions(chosen, view.topics)]
    except BadSelection as error:
        raise OperationError(str(error)) from None


def _print_cluster(document: dict[str, Any]) -> None:
    print_table(
        ["broker#", "rack", "address", "replicas#", "in sync#", "leaders#", "preferred#", "disk#"],
        [
            (
                each["broker"], each["rack"], each["address"] or "(away)", each["replicas"], each["in_sync"],
                each["leaders"], each["preferred_leaders"],
                "?" if each["disk_bytes"] is None else human_bytes(each["disk_bytes"]),
            )
            for each in document["brokers"]
        ],
    )  # fmt: skip
    _print_partitions("offline", document["offline"])
    _print_partitions("under-replicated", document["under_replicated"])
    others = [str(each) for each in document["controllers"] if each != document["controller"]]
    standby = f" (standing by: {', '.join(others)})" if others else ""
    controller = "unknown" if document["controller"] is None else document["controller"]
    print(
        f"cluster           {document['cluster_id']}\n"
        f"controller        {controller}{standby}\n"
        f"topics            {document['topics']} with {document['partitions']} partitions\n"
        f"offline           {len(document['offline'])}\n"
        f"under-replicated  {len(document['under_replicated'])}\n"
        f"led by others     {document['not_led_by_preferred']} (than their preferred replicas)\n"
        f"being moved       {len(document['moving'])}",
        flush=True,
    )


def _print_partitions(title: str, partitions: Sequence[dict[str, Any]]) -> None:
    if not partitions:
        return
    shown = partitions[:PARTITIONS_SHOWN_MAX]
    more = f", the first {len(shown)} of {len(partitions)}" if len(shown) < len(partitions) else ""
    print_table(
        ["topic", "partition#", "leader#", "replicas", "in sync"],
        [
            (
                each["topic"], each["partition"], each["leader"], describe_replicas(each["replicas"]),
                describe_replicas(each["in_sync"]),
            )
            for each in shown
        ],
        title=title + more,
    )  # fmt: skip

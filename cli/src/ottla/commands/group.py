"""`ottla group`: list, describe and delete consumer groups. Their offsets are reset in `group_offsets.py`."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla import completion
from ottla.concurrent_actions import finish_each
from ottla.confirmation import Yes, ask_at_terminal
from ottla.groups.asking import committed_offsets, describe_group, list_groups
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json, admin_client
from ottla.output import note, print_json, print_table
from ottla_operations.groups.coordinator_answers import CoordinatorAnswers
from ottla_operations.groups.inspection import (
    Group,
    Member,
    Partition,
    existing,
    log_offsets,
    partition_counts,
    partition_names,
)
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, plain_errors
from ottla_sdk.kafka.coordinator_requests import TIMEOUT_MAX_S

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

GroupNames = Annotated[
    list[str], typer.Argument(metavar="GROUP", autocompletion=completion.groups, help="One or more groups.")
]


class State(StrEnum):
    """What a group may be doing."""

    STABLE = "stable"
    EMPTY = "empty"
    PREPARING_REBALANCE = "preparing-rebalance"
    COMPLETING_REBALANCE = "completing-rebalance"
    REBALANCING = "rebalancing"
    DEAD = "dead"


class Type(StrEnum):
    """Which protocol a group's members speak."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


def list_(
    *,
    states: Annotated[
        list[State] | None, typer.Option("--state", help="Only groups in this state; repeatable.")
    ] = None,
    types: Annotated[list[Type] | None, typer.Option("--type", help="Only groups of this type; repeatable.")] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """List the consumer groups with their state and type.

    [bold]Examples[/bold]

      ottla group list

      ottla group list --state stable --type consumer --json
    """
    groups, problems = list_groups(admin_client(bootstrap, properties), bootstrap)
    rows = [
        {"group": each.group, "state": each.state, "type": each.type}
        for each in groups
        if (not states or each.state in states) and (not types or each.type in types)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(["group", "state", "type"], [tuple(row.values()) for row in rows])
    for problem in problems:
        note(f"ottla: the list may lack groups: {problem}")
    if problems:
        raise typer.Exit(1)


def describe(
    *,
    groups: GroupNames,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Show how far groups have come: for each partition the committed offset, the lag, and who reads it.

    [bold]Examples[/bold]

      ottla group describe billing

      ottla group describe billing shipping --json
    """
    client = admin_client(bootstrap, properties)
    documents = [_description(client, name, bootstrap) for name in groups]
    if as_json:
        print_json(documents)
        return
    for document in documents:
        print_table(
            [
                "topic", "partition#", "committed#", "log end#", "lag#", "member", "instance", "client", "host",
            ],
            [
                (
                    each["topic"], each["partition"], each["committed_offset"], each["log_end_offset"], each["lag"],
                    each["member_id"], each["instance_id"], each["client_id"], each["host"],
                )
                for each in document["partitions"]
            ],
            title=_title(document),
        )  # fmt: skip


def members(
    *,
    groups: GroupNames,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Show who is in groups, and what each member reads.

    [bold]Examples[/bold]

      ottla group members billing

      ottla group members billing --json
    """
    client = admin_client(bootstrap, properties)
    documents = [
        {**_head(found), "members": [_member_document(member) for member in found.members]}
        for found in (describe_group(client, name, bootstrap) for name in groups)
    ]
    if as_json:
        print_json(documents)
        return
    for document in documents:
        print_table(
            ["member", "instance", "client", "host", "partitions#", "assignment"],
            [
                (
                    each["member_id"], each["instance_id"], each["client_id"], each["host"], len(each["assignment"]),
                    partition_names([(at["topic"], at["partition"]) for at in each["assignment"]]),
                )
                for each in document["members"]
            ],
            title=_title(document),
        )  # fmt: skip


def delete(
    *,
    groups: GroupNames,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Delete groups without members, and the offsets they have committed. Asks first when typed at a terminal.

    [bold]Examples[/bold]

      ottla group delete billing

      ottla group delete billing shipping --yes
    """
    from confluent_kafka import KafkaError  # noqa: PLC0415

    reasons = {
        KafkaError.NON_EMPTY_GROUP: "it has members; stop them first",
        KafkaError.GROUP_ID_NOT_FOUND: "there is no such group",
    }
    client = admin_client(bootstrap, properties)
    ask_at_terminal(f"Delete {', '.join(groups)} and their committed offsets at {bootstrap}?", yes=yes)
    with plain_errors(bootstrap):
        answers = CoordinatorAnswers(client, REQUEST_TIMEOUT_S)
        futures = client.delete_consumer_groups(list(dict.fromkeys(groups)), request_timeout=TIMEOUT_MAX_S)
    finish_each(
        "group",
        "deleted",
        futures,
        bootstrap,
        as_json=as_json,
        in_words=lambda error: reasons.get(error.code()),
        wait=answers.of,
    )


def _description(client: "AdminClient", name: str, bootstrap: str) -> dict[str, Any]:
    from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

    group = describe_group(client, name, bootstrap)
    committed = committed_offsets(client, name, bootstrap)
    owners = group.owners()
    partitions = sorted({*committed, *owners})
    there = existing(partitions, partition_counts(client, bootstrap))
    ends = log_offsets(client, there, OffsetSpec.latest(), bootstrap)  # type: ignore[no-untyped-call] # the library's
    rows = [_row(each, committed.get(each), ends.get(each), owners.get(each)) for each in partitions]
    return {**_head(group), "lag": sum(row["lag"] or 0 for row in rows), "partitions": rows}


def _row(partition: Partition, committed: int | None, end: int | None, owner: Member | None) -> dict[str, Any]:
    lag = None if committed is None or end is None else max(0, end - committed)
    return {
        "topic": partition[0],
        "partition": partition[1],
        "committed_offset": committed,
        "log_end_offset": end,
        "lag": lag,
        "member_id": owner.member_id if owner else None,
        "instance_id": owner.instance_id if owner else None,
        "client_id": owner.client_id if owner else None,
        "host": owner.host if owner else None,
    }


def _head(group: Group) -> dict[str, Any]:
    return {
        "group": group.group,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
    }


def _title(document: dict[str, Any]) -> str:
    parts = [f"{document['group']}: {document['state']}, {document['type']}"]
    if document["assignor"]:
        parts.append(document["assignor"])
    if "lag" in document:
        parts.append(f"{document['lag']:,} behind")
    return ", ".join(parts)


def _member_document(member: Member) -> dict[str, Any]:
    target = member.target_assignment
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "assignment": _partition_documents(member.assignment),
        "target_assignment": None if target is None else _partition_documents(target),
    }


def _partition_documents(partitions: tuple[Partition, ...]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": number} for topic, number in partitions]

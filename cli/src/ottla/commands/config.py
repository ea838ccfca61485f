"""`ottla config`: settings of topics, of brokers, and of subscriptions to clients' metrics.

librdkafka knows nothing of the last, so these go by `ClusterAdmin`.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cluster.cluster_connection import cluster_admin
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json, admin_client, parse_assignments
from ottla.output import print_json, print_table
from ottla.typed_secrets import warn_of_secrets_of_processes
from ottla.waiting_notice import told_when_slow
from ottla_operations.cluster.cluster_view import CLIENT_METRICS_RESOURCE, ConfigChange
from ottla_operations.errors import UsageProblem
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, plain_errors
from ottla_sdk.kafka.secret_settings import is_secret_setting

if TYPE_CHECKING:
    from confluent_kafka.admin import ConfigEntry, ConfigResource


DEFAULT_CONFIG = 5
"""Kafka's number for a default as the source of a value."""
HIDDEN = "(hidden)"
"""Shown in place of a secret."""


class Kind(StrEnum):
    """What has settings."""

    TOPIC = "topic"
    BROKER = "broker"
    CLIENT_METRICS = "client-metrics"


class ListedKind(StrEnum):
    """What has settings and is shown by no other command."""

    CLIENT_METRICS = "client-metrics"


KindArgument = Annotated[
    Kind, typer.Argument(metavar="topic|broker|client-metrics", help="What the setting belongs to.")
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A topic, a broker's id, or a subscription to clients' metrics.")
]


def list_(
    *,
    kind: Annotated[ListedKind, typer.Argument(metavar="client-metrics", help="What has settings.")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """List the subscriptions to clients' metrics.

    [bold]Examples[/bold]

      ottla config list client-metrics
    """
    with told_when_slow(bootstrap, REQUEST_TIMEOUT_S), cluster_admin(bootstrap, properties) as admin:
        names = admin.client_metrics_names()
    if as_json:
        print_json({"kind": kind.value, "names": names})
    else:
        print(
            "\n".join(names) or "there is no subscription; `ottla config set client-metrics NAME metrics=…` makes one"
        )


def describe(
    *,
    kind: KindArgument,
    name: NameArgument,
    every: Annotated[bool, typer.Option("--all", "-a", help="Also settings that have their default value.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Show settings: those that were set, or with --all every one.

    [bold]Examples[/bold]

      ottla config describe topic flights

      ottla config describe broker 1 --all --json
    """
    rows = (
        _client_metrics_rows(name, every, bootstrap, properties)
        if kind is Kind.CLIENT_METRICS
        else _rows(kind, name, every, bootstrap, properties)
    )
    if as_json:
        print_json(rows)
    elif rows:
        print_table(["key", "value", "source"], [(row["key"], row["value"], row["source"]) for row in rows])
    else:
        print(f"{kind} {name} has only default settings; --all shows them")


def _rows(
    kind: Kind, name: str, every: bool, bootstrap: str, properties: Sequence[str] | None
) -> list[dict[str, object]]:
    from confluent_kafka.admin import ConfigSource  # noqa: PLC0415

    client = admin_client(bootstrap, properties)
    resource = _resource(kind, name)
    with told_when_slow(bootstrap, REQUEST_TIMEOUT_S), plain_errors(bootstrap, f"{kind} {name}"):
        entries = client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource].result()
    shown = sorted(
        (each for each in entries.values() if every or not _is_default(each)), key=lambda entry: str(entry.name)
    )
    return [
        {
            "key": entry.name,
            "value": entry.value,
            "source": ConfigSource(entry.source).name.lower().replace("_", " ") if entry.source is not None else None,
            "read_only": bool(entry.is_read_only),
        }
        for entry in shown
    ]


def _client_metrics_rows(
    name: str, every: bool, bootstrap: str, properties: Sequence[str] | None
) -> list[dict[str, object]]:
    with told_when_slow(bootstrap, REQUEST_TIMEOUT_S), cluster_admin(bootstrap, properties) as admin:
        settings = admin.client_metrics(name)
    return [
        {
            "key": key,
            "value": value,
            "source": "default config" if source == DEFAULT_CONFIG else "client metrics config",
            "read_only": False,
        }
        for key, (value, source) in sorted(settings.items())
        if every or source != DEFAULT_CONFIG
    ]


def set_(
    *,
    kind: KindArgument,
    name: NameArgument,
    assignments: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE", callback=warn_of_secrets_of_processes, help="New values."),
    ],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Set settings and leave the others as they are.

    [bold]Examples[/bold]

      ottla config set topic flights retention.ms=3600000 max.message.bytes=2000000

      ottla config set broker 1 log.retention.ms=86400000

      ottla config set client-metrics orders 'metrics=*' interval.ms=60000 'match=client_id=orders-.*'
    """
    values = parse_assignments(assignments, "setting")
    _alter(kind, name, values, bootstrap, properties)
    shown = {key: HIDDEN if is_secret_setting(key) else value for key, value in values.items()}
    _say(as_json, kind, name, {"set": shown}, [f"set {key}={value}" for key, value in shown.items()])


def delete(
    *,
    kind: KindArgument,
    name: NameArgument,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="Settings that go back to their default.")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Put settings back to their defaults.

    [bold]Examples[/bold]

      ottla config delete topic flights retention.ms
    """
    if wrong := [key for key in keys if "=" in key]:
        raise UsageProblem(f"{wrong[0]}: only the key is given to delete a setting")
    _alter(kind, name, dict.fromkeys(keys), bootstrap, properties)
    _say(as_json, kind, name, {"deleted": keys}, [f"deleted {key}" for key in keys])


def _alter(
    kind: Kind,
    name: str,
    values: Mapping[str, str | None],
    bootstrap: str,
    properties: Sequence[str] | None,
) -> None:
    """Set each setting, or put it back to its default where its value is None."""
    if kind is Kind.CLIENT_METRICS:
        changes = [ConfigChange(CLIENT_METRICS_RESOURCE, name, key, value) for key, value in values.items()]
        with told_when_slow(bootstrap, REQUEST_TIMEOUT_S), cluster_admin(bootstrap, properties) as admin:
            admin.alter_configs(changes)
        return
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry  # noqa: PLC0415

    client = admin_client(bootstrap, properties)
    resource = _resource(kind, name)
    for key, value in values.items():
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=operation))
    with told_when_slow(bootstrap, REQUEST_TIMEOUT_S), plain_errors(bootstrap, f"{kind} {name}"):
        client.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource].result()


def _resource(kind: Kind, name: str) -> "ConfigResource":
    from confluent_kafka.admin import ConfigResource  # noqa: PLC0415

    if kind is Kind.TOPIC:
        return ConfigResource(ConfigResource.Type.TOPIC, name)
    if not name.isdecimal():
        raise UsageProblem(f"broker {name}: name a broker by its id, a number")
    return ConfigResource(ConfigResource.Type.BROKER, name)


def _is_default(entry: "ConfigEntry") -> bool:
    from confluent_kafka.admin import ConfigSource  # noqa: PLC0415

    return bool(entry.is_default) or ConfigSource(entry.source) is ConfigSource.DEFAULT_CONFIG


def _say(as_json: bool, kind: Kind, name: str, result: dict[str, object], lines: Sequence[str]) -> None:
    if as_json:
        print_json({"kind": kind.value, "name": name, **result})
    else:
        print("\n".join(lines))

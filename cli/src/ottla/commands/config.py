"""`ottla config`: settings of topics and brokers."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.errors import UsageProblem
from ottla.kafka_client import (
    BOOTSTRAP_DEFAULT,
    REQUEST_TIMEOUT_S,
    Bootstrap,
    ClientProperties,
    Json,
    admin_client,
    parse_assignments,
    plain_errors,
)
from ottla.output import print_json, print_table
from ottla.slow_answers import told_when_slow

if TYPE_CHECKING:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource


class Kind(StrEnum):
    """What has settings."""

    TOPIC = "topic"
    BROKER = "broker"


KindArgument = Annotated[Kind, typer.Argument(metavar="topic|broker", help="What the setting belongs to.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A topic, or a broker's id.")]


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
    from confluent_kafka.admin import ConfigSource  # noqa: PLC0415

    client = admin_client(bootstrap, properties)
    resource = _resource(kind, name)
    with told_when_slow(bootstrap, REQUEST_TIMEOUT_S), plain_errors(bootstrap, f"{kind} {name}"):
        entries = client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource].result()
    shown = sorted(
        (each for each in entries.values() if every or not _is_default(each)), key=lambda entry: str(entry.name)
    )
    rows = [
        {
            "key": entry.name,
            "value": entry.value,
            "source": ConfigSource(entry.source).name.lower().replace("_", " ") if entry.source is not None else None,
            "read_only": bool(entry.is_read_only),
        }
        for entry in shown
    ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(["key", "value", "source"], [(row["key"], row["value"], row["source"]) for row in rows])
    else:
        print(f"{kind} {name} has only default settings; --all shows them")


def set_(
    *,
    kind: KindArgument,
    name: NameArgument,
    assignments: Annotated[list[str], typer.Argument(metavar="KEY=VALUE", help="New values.")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Set settings and leave the others as they are.

    [bold]Examples[/bold]

      ottla config set topic flights retention.ms=3600000 max.message.bytes=2000000

      ottla config set broker 1 log.retention.ms=86400000
    """
    from confluent_kafka.admin import AlterConfigOpType  # noqa: PLC0415

    values = parse_assignments(assignments, "setting")
    changes = [(key, value, AlterConfigOpType.SET) for key, value in values.items()]
    _alter(kind, name, changes, bootstrap, properties)
    _say(as_json, kind, name, {"set": values}, [f"set {key}={value}" for key, value in values.items()])


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
    from confluent_kafka.admin import AlterConfigOpType  # noqa: PLC0415

    if wrong := [key for key in keys if "=" in key]:
        raise UsageProblem(f"{wrong[0]}: only the key is given to delete a setting")
    _alter(kind, name, [(key, None, AlterConfigOpType.DELETE) for key in keys], bootstrap, properties)
    _say(as_json, kind, name, {"deleted": keys}, [f"deleted {key}" for key in keys])


def _alter(
    kind: Kind,
    name: str,
    changes: "Sequence[tuple[str, str | None, AlterConfigOpType]]",
    bootstrap: str,
    properties: Sequence[str] | None,
) -> None:
    from confluent_kafka.admin import ConfigEntry  # noqa: PLC0415

    client = admin_client(bootstrap, properties)
    resource = _resource(kind, name)
    for key, value, operation in changes:
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

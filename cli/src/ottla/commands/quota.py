"""`ottla quota`: what clients may use of each broker."""

from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cluster.cluster_connection import cluster_admin
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json
from ottla.output import note, print_json, print_table
from ottla_operations.errors import OperationError, UsageProblem

if TYPE_CHECKING:
    from ottla_operations.quotas.client_quotas import Entity

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="Of the clients of a user.")]
DefaultUser = Annotated[bool, typer.Option("--default-user", help="Of users that have no quota of their own.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="NAME", help="Of clients with a client id.")]
DefaultClientId = Annotated[
    bool, typer.Option("--default-client-id", help="Of client ids that have no quota of their own.")
]
Address = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="Of connections from an address.")]
DefaultAddress = Annotated[bool, typer.Option("--default-ip", help="Of addresses that have no quota of their own.")]
Values = Annotated[list[str], typer.Argument(metavar="QUOTA=VALUE...", help="Quotas, under Kafka's names.")]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[QUOTA...]", help="Quotas, under Kafka's names.", show_default="all of them"),
]


def list_(
    *, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, properties: ClientProperties = None, as_json: Json = False
) -> None:
    """List the quotas of clients.

    [bold]Examples[/bold]

      ottla quota list
    """
    from ottla_operations.quotas.client_quotas import quotas_of, shown  # noqa: PLC0415

    with cluster_admin(bootstrap, properties) as admin:
        found = sorted(quotas_of(admin).items(), key=lambda each: shown(each[0]))
    if as_json:
        print_json({"quotas": [{"entity": dict(entity), "quotas": quotas} for entity, quotas in found]})
        return
    rows = [(shown(entity), name, f"{value:g}") for entity, quotas in found for name, value in sorted(quotas.items())]
    print_table(("of", "quota", "per second"), rows)


def set_(
    *,
    values: Values,
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    address: Address = None,
    default_address: DefaultAddress = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Set quotas of a user, of a client id, of both, or of an address.

    Each broker goes by them at once: producer_byte_rate, consumer_byte_rate, request_percentage (of one core) and
    controller_mutation_rate (partitions created and deleted) of clients, connection_creation_rate of addresses.

    [bold]Examples[/bold]

      ottla quota set --user flights producer_byte_rate=1048576 request_percentage=50

      ottla quota set --default-user --client-id sensors consumer_byte_rate=500000
    """
    entity = _entity(
        {"user": (user, default_user), "client-id": (client_id, default_client_id), "ip": (address, default_address)}
    )
    quotas = dict(_value(each) for each in values)
    _change(entity, {**quotas}, bootstrap, properties, as_json=as_json)


def remove(
    *,
    names: Names = None,
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    address: Address = None,
    default_address: DefaultAddress = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Remove quotas of a user, of a client id, of both, or of an address.

    [bold]Examples[/bold]

      ottla quota remove --user flights producer_byte_rate

      ottla quota remove --default-user
    """
    from ottla_operations.quotas.client_quotas import quotas_of, shown  # noqa: PLC0415

    entity = _entity(
        {"user": (user, default_user), "client-id": (client_id, default_client_id), "ip": (address, default_address)}
    )
    with cluster_admin(bootstrap, properties) as admin:
        known = quotas_of(admin).get(entity, {})
    if missing := [name for name in names or [] if name not in known]:
        raise OperationError(f"{shown(entity)} has no {missing[0]}; `ottla quota list` shows what there is")
    if not known:
        raise OperationError(f"{shown(entity)} has no quotas; `ottla quota list` shows what there is")
    _change(entity, dict.fromkeys(names or known), bootstrap, properties, as_json=as_json)


def _change(
    entity: "Entity",
    quotas: dict[str, float | None],
    bootstrap: str,
    properties: ClientProperties,
    *,
    as_json: bool,
) -> None:
    from ottla_operations.quotas.client_quotas import change, shown  # noqa: PLC0415

    with cluster_admin(bootstrap, properties) as admin:
        change(admin, entity, quotas)
    if as_json:
        print_json({"entity": dict(entity), "quotas": quotas})
        return
    for name, value in quotas.items():
        note(f"{shown(entity)}: {name} removed" if value is None else f"{shown(entity)}: {name} is {value:g}")


def _entity(given: dict[str, tuple[str | None, bool]]) -> "Entity":
    """Return of whom a quota is.

    Raises:
        UsageProblem: the options name nobody, or one kind twice.
    """
    parts: list[tuple[str, str | None]] = []
    for kind, (name, is_default) in given.items():
        if name is not None and is_default:
            raise UsageProblem(f"--{kind} and --default-{kind} exclude each other")
        if name is not None or is_default:
            parts.append((kind, name))
    if not parts:
        raise UsageProblem("say of whom the quota is: --user, --client-id, --ip, or --default-user and alike")
    return tuple(parts)


def _value(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        if not name or not equals:
            raise ValueError
        return name, float(value)
    except ValueError:
        raise UsageProblem(f"{text}: write a quota as NAME=NUMBER, such as producer_byte_rate=1048576") from None

"""`ottla doctor`: what is wrong with a cluster."""

from typing import Annotated

import typer

from ottla.commands.local_options import Directory
from ottla.connect.connect_client import URL_VARIABLE
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json
from ottla.mirror.mirror_client import URL_VARIABLE as MIRROR_URL_VARIABLE
from ottla.output import note, print_json

PROBLEMS, NOT_SEEN, ADVICE_ONLY = 1, 2, 3


def doctor(
    *,
    directory: Directory = None,
    connect_url: Annotated[
        str | None,
        typer.Option("--connect-url", envvar=URL_VARIABLE, metavar="URL[,…]", help="Where Connect workers listen."),
    ] = None,
    mirror_url: Annotated[
        str | None,
        typer.Option(
            "--mirror-url", envvar=MIRROR_URL_VARIABLE, metavar="URL[,…]", help="Where mirror workers listen."
        ),
    ] = None,
    etcd: Annotated[
        str | None,
        typer.Option(
            "--etcd",
            envvar="OTTLA_ETCD_ENDPOINTS",
            metavar="URL[,…]",
            help="Where etcd's members show metrics and health: client URLs, or those of --listen-metrics-urls.",
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Say what is wrong with a cluster, in the order of harm, and the command that helps.

    Exits with 0 if nothing is, with 1 if something is, with 2 if nothing was found and a part not seen, and with 3 if
    there is only advice.

    [bold]Examples[/bold]

      ottla doctor

      ottla doctor --bootstrap kafka-1:9092 --json

      ottla doctor --bootstrap kafka-1:9092 --connect-url http://connect-1:8083 --etcd http://etcd-1:2379
    """
    from ottla.doctor.local_gathering import gathered  # noqa: PLC0415 - needs Kafka's whole protocol
    from ottla_operations.doctor.findings import Harm  # noqa: PLC0415
    from ottla_operations.doctor.gathering import Addresses  # noqa: PLC0415 - needs Kafka's whole protocol
    from ottla_operations.doctor.rules import findings  # noqa: PLC0415

    facts, silent = gathered(bootstrap, properties, directory, Addresses(connect_url, mirror_url, etcd))
    found = findings(facts)
    if as_json:
        print_json({"findings": [each.to_document() for each in found], "not_seen": silent})
    else:
        for each in found:
            print(f"{each.harm.name.lower().replace('_', ' ')}: {each.where}: {each.what}\n  {each.remedy}")
        for line in silent:
            note(f"ottla: could not look at {line}")
        if not found and not silent:
            print("nothing is wrong")
    if any(each.harm is not Harm.ADVICE for each in found):
        raise typer.Exit(PROBLEMS)
    if silent:
        raise typer.Exit(NOT_SEEN)
    if found:
        raise typer.Exit(ADVICE_ONLY)

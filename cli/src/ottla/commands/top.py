"""`ottla top`: what goes on in a cluster."""

from typing import Annotated

import typer

from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json

INTERVAL_DEFAULT_S = 2.0


def top(
    *,
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.2, metavar="SECONDS", help="Between two looks.")
    ] = INTERVAL_DEFAULT_S,
    once: Annotated[
        bool, typer.Option("--once", help="Look twice, print what happened in between, and end.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Show what goes on in a cluster: brokers, topics and groups, again and again.

    q or Ctrl-C ends it. Where standard output is no terminal it looks twice and ends.

    [bold]Examples[/bold]

      ottla top

      ottla top --bootstrap kafka-1:9092 --once

      ottla top --json --interval 10
    """
    from ottla.top.showing import show_once, show_until_quit  # noqa: PLC0415 - needs Kafka's whole protocol
    from ottla.top.terminal import Terminal  # noqa: PLC0415 - likewise

    terminal = None if once or as_json else Terminal.of_this_process()
    if terminal is None:
        show_once(bootstrap, properties, interval_s=interval_s, as_json=as_json)
    else:
        show_until_quit(bootstrap, properties, terminal, interval_s=interval_s)

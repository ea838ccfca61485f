"""`ottla mirror link pause`, `resume`, `throttle`, `promote`, `delete`: links that are there are changed."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ottla.confirmation import Yes, ask_at_terminal, ask_or_refuse
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json
from ottla.mirror.link_requests import LinkName, LinkNames, link_admin, link_property_settings
from ottla.mirror.rate import in_words, parse_rate
from ottla.output import note, print_json, print_table
from ottla.sequential_actions import do_each
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.links.link_standing import status_of_links


def pause(
    *,
    names: LinkNames,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Pause links: nothing is fetched until they are resumed.

    [bold]Examples[/bold]

      ottla mirror link pause west
    """
    _alter(names, bootstrap, properties, {"paused": True}, "paused", as_json=as_json)


def resume(
    *,
    names: LinkNames,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Have links go on that were paused.

    [bold]Examples[/bold]

      ottla mirror link resume west
    """
    _alter(names, bootstrap, properties, {"paused": False}, "resumed", as_json=as_json)


def throttle(
    *,
    name: LinkName,
    rate: Annotated[str, typer.Argument(metavar="BYTES/S", help="Of each broker, or `none`.")],
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Limit how many bytes each broker fetches through a link per second.

    [bold]Examples[/bold]

      ottla mirror link throttle west 20000000

      ottla mirror link throttle west none
    """
    from ottla_core.cluster.controller_rpc.link_api import UNLIMITED  # noqa: PLC0415

    limit = parse_rate(rate)
    change = {"bytes_per_second": UNLIMITED if limit is None else limit}
    _alter([name], bootstrap, properties, change, in_words(limit), as_json=as_json)


def alter(
    *,
    name: LinkName,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topics", metavar="PATTERN", help="Topics to follow in place of the present ones; repeatable."
        ),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--groups", metavar="PATTERN", help="Groups that go along in place of the present; repeatable."),
    ] = None,
    link_settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="As with `ottla mirror link create`; repeatable."),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Have the default again; repeatable.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Change which topics and groups a link follows, and how brokers keep it in step.

    Topics that follow already go on, whatever the patterns.

    [bold]Examples[/bold]

      ottla mirror link alter west --set sync.group.offsets.interval.seconds=2

      ottla mirror link alter west --topics 'orders.*' --topics payments --unset topics.exclude
    """
    from ottla.mirror.link_source import check_patterns  # noqa: PLC0415 - help has no use for connections

    check_patterns(topics or (), "--topics")
    check_patterns(groups or (), "--groups")
    changes: dict[str, Any] = {
        "properties": {**link_property_settings(link_settings), **dict.fromkeys(unset or ())},
        **({"topics": tuple(topics)} if topics else {}),
        **({"groups": tuple(groups)} if groups else {}),
    }
    if len(changes) == 1 and not changes["properties"]:
        raise UsageProblem("say what to change: --topics, --groups, --set or --unset")
    _alter([name], bootstrap, properties, changes, "altered", as_json=as_json)


def promote(
    *,
    name: LinkName,
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", show_default="all", help="Topics of the link.")
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Have linked topics follow no longer and take writes.

    [bold]Examples[/bold]

      ottla mirror link promote west --yes

      ottla mirror link promote west orders --yes
    """
    from ottla_core.client.links import promote as promotion  # noqa: PLC0415

    admin = link_admin(bootstrap, properties)
    before = {(each.topic, each.index): each for each in status_of_links(admin, [name]).partitions}
    what = ", ".join(topics) if topics else f"all topics of {name}"
    ask_or_refuse(f"Have {what} follow no longer at {bootstrap}?", yes=yes, refusal="nothing was promoted")
    promoted = admin.ask(promotion(name, topics or ()))
    rows = []
    for each in promoted:
        known = before.get((each.topic, each.index))
        rows.append(
            {
                "topic": each.topic,
                "partition": each.index,
                "leader_epoch": each.leader_epoch,
                "not_copied": None if known is None or known.lag < 0 else known.lag,
                "source_end": None if known is None or known.source_end_offset < 0 else known.source_end_offset,
            }
        )
    if as_json:
        print_json(rows)
        return
    print_table(
        ["topic", "partition#", "leader epoch#", "source's end#", "not copied#"],
        [
            (row["topic"], row["partition"], row["leader_epoch"], _or_unknown(row["source_end"]),
             _or_unknown(row["not_copied"]))
            for row in rows
        ],
    )  # fmt: skip
    note("not copied: offsets of the source that were not here, as of its last answer before the promotion")


def delete(
    *,
    names: LinkNames,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Delete links that no topic follows any more: promote or delete the topics first. Asks at a terminal.

    [bold]Examples[/bold]

      ottla mirror link delete west
    """
    from ottla_core.client.links import delete_link  # noqa: PLC0415

    admin = link_admin(bootstrap, properties)
    ask_at_terminal(f"Delete {', '.join(names)} at {bootstrap}?", yes=yes)

    def delete_one(name: str) -> str:
        admin.ask(delete_link(name))
        return "deleted"

    do_each(names, delete_one, "deleted", as_json=as_json, kind="link", refusal=OperationError)


def _alter(
    names: Sequence[str],
    bootstrap: str,
    properties: Sequence[str] | None,
    change: dict[str, Any],
    done: str,
    *,
    as_json: bool,
) -> None:
    from ottla_core.client.links import alter_link  # noqa: PLC0415
    from ottla_core.cluster.controller_rpc.link_api import LinkChange  # noqa: PLC0415

    admin = link_admin(bootstrap, properties)

    def alter_one(name: str) -> str:
        admin.ask(alter_link(LinkChange(name=name, **change)))
        return done

    do_each(names, alter_one, done, as_json=as_json, kind="link", refusal=OperationError)


def _or_unknown(number: object) -> str:
    return "?" if number is None else str(number)

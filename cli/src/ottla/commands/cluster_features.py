"""`ottla cluster features`: which formats a cluster may use, by levels (KIP-584)."""

from collections.abc import Mapping
from typing import Annotated

import typer

from ottla.cluster.cluster_connection import cluster_admin
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json
from ottla.output import note, print_json, print_table
from ottla_operations.cluster.features import (
    FeatureView,
    UpdateType,
    check_known,
    common_features,
    newest_levels,
    parse_levels,
)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Have the cluster check the update, and change nothing.")]


def show(
    *, bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, properties: ClientProperties = None, as_json: Json = False
) -> None:
    """Show the level of each feature that the cluster is at, and those that all its brokers have.

    After an upgrade of all processes the cluster writes what the former release reads, until its level is raised.

    [bold]Examples[/bold]

      ottla cluster features show
    """
    with cluster_admin(bootstrap, properties) as admin:
        features = common_features(*admin.features())
    if as_json:
        print_json({"features": [_document(each) for each in features]})
        return
    rows = [(each.name, str(each.level), f"{each.min_level} to {each.max_level}", _advice(each)) for each in features]
    print_table(("feature", "level", "brokers have", ""), rows)


def upgrade(
    *,
    levels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FEATURE=LEVEL]…", show_default="the newest that all brokers have", help="Levels to go to."
        ),
    ] = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Have the cluster use the formats of a newer release, once every process runs it.

    Refused while a process of the cluster lacks the level. All levels are changed or none.

    [bold]Examples[/bold]

      ottla cluster features upgrade

      ottla cluster features upgrade ottla.version=2 --dry-run
    """
    wanted = parse_levels(levels or [])
    with cluster_admin(bootstrap, properties) as admin:
        features = common_features(*admin.features())
        wanted = wanted or newest_levels(features)
        check_known(wanted, features)
        if wanted:
            admin.update_features(wanted, UpdateType.UPGRADE, validate_only=dry_run)
    _report(features, wanted, dry_run=dry_run, as_json=as_json)


def downgrade(
    *,
    levels: Annotated[list[str], typer.Argument(metavar="FEATURE=LEVEL…", help="Levels to go back to.")],
    dry_run: DryRun = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Have the cluster write what a former release reads, so that its processes may come back.

    Refused where a format of the present level is in use. All levels are changed or none.

    [bold]Examples[/bold]

      ottla cluster features downgrade ottla.version=1 transaction.version=0
    """
    wanted = parse_levels(levels)
    with cluster_admin(bootstrap, properties) as admin:
        features = common_features(*admin.features())
        check_known(wanted, features)
        admin.update_features(wanted, UpdateType.DOWNGRADE, validate_only=dry_run)
    _report(features, wanted, dry_run=dry_run, as_json=as_json)


def _report(features: list[FeatureView], wanted: Mapping[str, int], *, dry_run: bool, as_json: bool) -> None:
    former = {each.name: each.level for each in features}
    updates = [
        {"feature": name, "former_level": former[name], "level": level} for name, level in sorted(wanted.items())
    ]
    if as_json:
        print_json({"updates": updates, "dry_run": dry_run})
        return
    if not updates:
        note("every feature is at the newest level that all brokers have")
    for each in updates:
        would = "would go" if dry_run else "went"
        print(f"{each['feature']} {would} from level {each['former_level']} to {each['level']}")


def _document(feature: FeatureView) -> dict[str, str | int]:
    return {
        "feature": feature.name,
        "level": feature.level,
        "min_level": feature.min_level,
        "max_level": feature.max_level,
    }


def _advice(feature: FeatureView) -> str:
    if feature.max_level > feature.level:
        return "`ottla cluster features upgrade` raises it"
    if feature.level > feature.max_level:
        return "a broker lacks the cluster's level"
    return ""

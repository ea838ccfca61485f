"""The options that backups, restorations and recoveries share: which etcd, which cluster."""

from pathlib import Path
from typing import Annotated

import typer

Etcd = Annotated[
    str | None,
    typer.Option("--etcd", metavar="URL[,…]", help="The etcd of the cluster; without it, that of a local cluster."),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Properties file of a service of the cluster, which says how etcd is reached: etcd.endpoints, "
        "etcd.tls.ca and others, cluster.name.",
    ),
]
ClusterName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Name of the cluster in etcd, as cluster.name of its services says."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Backup = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="A backup, for what is in no copy of the state; repeatable."),
]
WithoutBroker = Annotated[
    list[int] | None,
    typer.Option(metavar="ID", help="Give a broker up whose log directories are lost for good; repeatable."),
]

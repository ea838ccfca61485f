"""The options of `ottla up`: which processes, where, and with what settings.

Every one of them is None if it was not typed, which means "as the last time in this directory".
"""

from pathlib import Path
from typing import Annotated

import typer

from ottla.local.cluster_directory import DIRECTORY_VARIABLE
from ottla.typed_secrets import warn_of_secrets_of_processes

BROKERS_MAX = 64
CONTROLLERS_MAX = 9
COORDINATORS_MAX = 64
ETCD_NODES_MAX = 7
CONNECT_MAX = 64
MIRROR_MAX = 64

Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        envvar=DIRECTORY_VARIABLE,
        show_default="~/.local/share/ottla/local",
        help="Its data, logs and state.",
    ),
]
Brokers = Annotated[
    int | None, typer.Option(min=1, max=BROKERS_MAX, show_default="1, or as before", help="How many brokers.")
]
Controllers = Annotated[
    int | None, typer.Option(min=1, max=CONTROLLERS_MAX, show_default="1, or as before", help="How many controllers.")
]
Coordinators = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=COORDINATORS_MAX,
        show_default="1, or as before",
        help="How many group coordinators; without one there are no consumer groups.",
    ),
]
EtcdNodes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=ETCD_NODES_MAX,
        show_default="1, or as before",
        help="How many members the etcd has; 3 go on when one is lost. Fixed once the directory has data.",
    ),
]
Secure = Annotated[
    bool,
    typer.Option(
        "--secure",
        help="With certificates everywhere: etcd, processes, brokers and clients. Fixed once the directory has data.",
    ),
]
Racks = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[,…]",
        show_default="none, or as before",
        help="Racks, dealt to the brokers in turn; replicas of a partition are spread over them.",
    ),
]
BasePort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        show_default="9092, or as before",
        help="Port of the first broker, on 127.0.0.1; the others follow. 0 takes any free ports.",
    ),
]
Connect = Annotated[
    int | None,
    typer.Option(min=0, max=CONNECT_MAX, show_default="0, or as before", help="How many Connect workers."),
]
ConnectPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        show_default="8083, or as before",
        help="Port of the first Connect worker's REST API; the others follow. 0 takes any free ports.",
    ),
]
Mirror = Annotated[
    int | None,
    typer.Option(min=0, max=MIRROR_MAX, show_default="0, or as before", help="How many mirror workers."),
]
MirrorPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        show_default="8084, or as before",
        help="Port of the first mirror worker's REST API; the others follow. 0 takes any free ports.",
    ),
]
Console = Annotated[
    bool | None,
    typer.Option("--console/--no-console", show_default="no, or as before", help="Start the console, a web page."),
]
ConsolePort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        show_default="8086, or as before",
        help="Port of the console. 0 takes any free port.",
    ),
]
Etcd = Annotated[
    str | None,
    typer.Option(metavar="URL[,…]", help="Use this etcd. Without it, one is started with the cluster."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="ROLE:KEY=VALUE",
        callback=warn_of_secrets_of_processes,
        help="A setting for every broker, controller, group-coordinator, connect or mirror worker, console, or for "
        "broker-1 alone; "
        "kept until --unset.",
    ),
]
Unset = Annotated[
    list[str] | None,
    typer.Option("--unset", metavar="ROLE:KEY", help="Forget a setting of the last time; repeatable."),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Start with fewer brokers than before even if partitions cannot be used then."),
]
Detach = Annotated[
    bool, typer.Option("--detach", "-d", help="Return when everything is ready; stop it with `ottla down`.")
]

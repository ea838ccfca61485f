"""How commands name Connect workers."""

from typing import Annotated

import typer

URL_DEFAULT = "http://127.0.0.1:8083"
URL_VARIABLE = "OTTLA_CONNECT_URL"

Url = Annotated[
    str,
    typer.Option(
        "--connect-url",
        "--url",
        envvar=URL_VARIABLE,
        metavar="URL[,…]",
        help="Where a worker listens; of several the first that is there.",
    ),
]

"""The options of the commands that move replicas; apart from what they do, which is slower to import."""

from typing import Annotated

import typer

PARALLEL_DEFAULT = 10

Throttle = Annotated[
    int | None,
    typer.Option(min=1, metavar="BYTES/S", show_default="none", help="The most that each broker copies per second."),
]
Parallel = Annotated[int, typer.Option(min=1, help="How many partitions are copied at once.")]

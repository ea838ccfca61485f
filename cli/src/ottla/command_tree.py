"""The tree of commands: every group and command that `ottla` has, in the order in which help shows them."""

from typing import Annotated

import typer

from ottla.commands import bench, cluster, config, connect, consume, group, local_cluster, log, produce, topic
from ottla.plugin_commands import WithPluginCommands

app = typer.Typer(
    name="ottla",
    cls=WithPluginCommands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Ottla: a streaming platform that speaks the Kafka protocol.\n\n"
    "Start a cluster with [bold]ottla up[/bold], then use it with any Kafka client or with the commands below. "
    "Every command explains itself: [bold]ottla COMMAND --help[/bold].",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        print(f"ottla {version('ottla')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


local_cluster.register(app)
app.add_typer(topic.app, name="topic")
app.add_typer(config.app, name="config")
produce.register(app)
consume.register(app)
app.add_typer(group.app, name="group")
app.add_typer(connect.app, name="connect")
app.add_typer(cluster.app, name="cluster")
app.add_typer(log.app, name="log")
app.add_typer(bench.app, name="bench")

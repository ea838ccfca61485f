"""`ottla connect`: connectors, their tasks and offsets, and the plugins that they are made of."""

import typer

from ottla.commands import connect_definitions, connect_logs, connect_offsets, connect_plugins, connect_state

app = typer.Typer(no_args_is_help=True, help="Connectors: make, watch and steer them.")

app.command()(connect_definitions.create)
app.command()(connect_definitions.validate)
app.command("list")(connect_state.list_)
app.command()(connect_state.status)
app.command()(connect_definitions.config)
app.command()(connect_state.restart)
app.command()(connect_state.pause)
app.command()(connect_state.resume)
app.command()(connect_state.stop)
app.command()(connect_definitions.delete)
app.add_typer(connect_offsets.app, name="offsets")
app.command()(connect_logs.logs)
app.command()(connect_plugins.plugins)
app.command("new-plugin")(connect_plugins.new_plugin)

"""What runs inside the process of a connector or a task: `main.run`.

`channel.py` and `control.py` speak with the worker; `connector_runner.py`, `source/` and `sink/` run plugins;
`pipeline/` is what records go through on their way; `settings/` knows what connectors can be told and validates it;
`plugins/` finds plugin classes.
"""

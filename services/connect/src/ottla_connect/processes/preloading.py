"""What the launcher imports before it forks the processes of connectors and tasks: the runtime, and no plugin."""

import importlib

PRELOADED = ("confluent_kafka", "msgspec", "ottla_sdk", "pydantic")
"""What processes need besides their entry's own imports, which come with it."""


def preload() -> None:
    """Import it."""
    for name in PRELOADED:
        importlib.import_module(name)

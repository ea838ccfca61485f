"""Where the connectors for tests of Ottla Connect are, and how processes come to find them.

`connect_plugins/working` is what `pip install` would make of a plugin distribution: a package and, beside it, a
`.dist-info` folder with its entry point; a process that has the folder on its PYTHONPATH has the plugin installed
(`environment_with_test_plugins()`), and so has a test after `monkeypatch.syspath_prepend(WORKING_PLUGINS)`.
`connect_plugins/broken` holds one that cannot be imported, `connect_plugins/targets` one with the SQL sink, which is
slow to import.

    ottla_test_plugins.ListSource      counts; settings in `sources.py`, such as topic, list.count, list.tasks
    ottla_test_plugins.CollectingSink  writes a line of JSON per record into collect.path; settings in `sinks.py`
    …AddOne, …Faulty, …IsOdd           transforms and a predicate
    …ReversedText                      a converter

Connectors and tasks fail, crash, hang and leak as their `fault.*` settings say: `faults.py`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

WORKING_PLUGINS = Path(__file__).parent / "connect_plugins" / "working"
BROKEN_PLUGINS = Path(__file__).parent / "connect_plugins" / "broken"
TARGET_PLUGINS = Path(__file__).parent / "connect_plugins" / "targets"


def environment_with_test_plugins(*, broken: bool = False) -> Mapping[str, str]:
    """The environment for a worker that has the test plugins installed, also the broken one if asked for."""
    return _environment(WORKING_PLUGINS, *([BROKEN_PLUGINS] if broken else []))


def environment_with_test_targets() -> Mapping[str, str]:
    """The environment for a worker that has `ottla_test_targets` installed."""
    return _environment(TARGET_PLUGINS)


def _environment(*folders: Path) -> Mapping[str, str]:
    paths = [*map(str, folders), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

"""Connectors for the tests of Ottla Connect: see `connect_plugin_path.py` for how they are found."""

from ottla_test_plugins.converters import FaultyText, ReversedText
from ottla_test_plugins.faults import FaultConfig
from ottla_test_plugins.jobs import ProgramJob, ProgramJobTask
from ottla_test_plugins.sinks import CollectingSink, CollectingSinkTask
from ottla_test_plugins.sources import ListSource, ListSourceTask
from ottla_test_plugins.transforms import AddOne, Faulty, IsOdd

__all__ = [
    "AddOne",
    "CollectingSink",
    "CollectingSinkTask",
    "FaultConfig",
    "Faulty",
    "FaultyText",
    "IsOdd",
    "ListSource",
    "ListSourceTask",
    "ProgramJob",
    "ProgramJobTask",
    "ReversedText",
]

"""The hooks: what this distribution brings."""

from typing import Any

from ottla_sdk import Connector, Converter, Predicate, Transform, hookimpl
from ottla_test_plugins import AddOne, CollectingSink, Faulty, FaultyText, IsOdd, ListSource, ProgramJob, ReversedText
from ottla_test_plugins.speed import MemorySource, NoOpSink


@hookimpl
def ottla_connectors() -> list[type[Connector[Any]]]:
    return [ListSource, CollectingSink, ProgramJob, MemorySource, NoOpSink]


@hookimpl
def ottla_transforms() -> list[type[Transform[Any]]]:
    return [AddOne, Faulty]


@hookimpl
def ottla_predicates() -> list[type[Predicate[Any]]]:
    return [IsOdd]


@hookimpl
def ottla_converters() -> list[type[Converter[Any]]]:
    return [ReversedText, FaultyText]

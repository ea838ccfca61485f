"""Tests of transforms and predicates: they say what they should, and change nothing in place."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import pytest

from ottla_sdk.conformance.plugin_suite import BadSettings, PluginSuite, make_suite, may_raise
from ottla_sdk.errors import DataError
from ottla_sdk.records import ConnectRecord, SinkRecord, SourceRecord
from ottla_sdk.transforms import Predicate, Transform

TransformCase = tuple[Mapping[str, str], ConnectRecord, ConnectRecord | type[DataError] | None]
"""Settings, a record, and what becomes of it: a record, None if it is dropped, or the error that is raised."""

PredicateCase = tuple[Mapping[str, str], ConnectRecord, bool]
"""Settings, a record, and whether the predicate is true of it."""


class TransformSuite(PluginSuite):
    """The suite; `transform_suite` makes one for a class.

    Attributes:
        plugin: the transform's class.
        cases: what it does.
    """

    plugin: ClassVar[type[Transform[Any]]]
    cases: ClassVar[Sequence[TransformCase]]

    def test_records_become_what_they_should(self) -> None:
        """In every case."""
        for number, (settings, record, expected) in enumerate(self.cases):
            transform = self._transform(settings)
            if isinstance(expected, type):
                with pytest.raises(expected):
                    transform.apply(record)
            else:
                assert transform.apply(record) == expected, f"case {number}"

    def test_records_are_not_changed_in_place(self) -> None:
        """Neither they nor what they hold: others may have the same objects."""
        for number, (settings, record, _) in enumerate(self.cases):
            before = deepcopy(record)
            self._apply(self._transform(settings), record)
            assert record == before, f"case {number}"

    def test_the_same_record_gives_the_same_again(self) -> None:
        """A task that is restarted transforms records anew."""
        for settings, record, _ in self.cases:
            transform = self._transform(settings)
            assert self._apply(transform, record) == self._apply(transform, deepcopy(record))

    def test_where_a_record_is_from_stays(self) -> None:
        """Offsets are committed by it."""
        for settings, record, _ in self.cases:
            for kind in _kinds(record):
                result = self._apply(self._transform(settings), kind)
                if isinstance(result, ConnectRecord):
                    assert type(result) is type(kind)
                if isinstance(result, SourceRecord) and isinstance(kind, SourceRecord):
                    assert (result.source_partition, result.source_offset) == (
                        kind.source_partition,
                        kind.source_offset,
                    )
                if isinstance(result, SinkRecord) and isinstance(kind, SinkRecord):
                    assert (result.origin, result.offset) == (kind.origin, kind.offset)

    def test_a_record_without_key_and_value_is_no_surprise(self) -> None:
        """Tombstones pass, are dropped, or are a `DataError`."""
        for settings, record, _ in self.cases:
            self._apply(
                self._transform(settings), record.replaced(key=None, key_schema=None, value=None, value_schema=None)
            )

    def test_close_may_come_again(self) -> None:
        """Twice, and before any record."""
        transform = self._transform(self.cases[0][0])
        transform.close()
        transform.close()

    def _transform(self, settings: Mapping[str, str]) -> Transform[Any]:
        transform = self.plugin()
        transform.configure(settings)
        return transform

    def _apply(self, transform: Transform[Any], record: ConnectRecord) -> ConnectRecord | str | None:
        try:
            return transform.apply(record)
        except DataError as error:
            return f"DataError: {error}"


class PredicateSuite(PluginSuite):
    """The suite; `predicate_suite` makes one for a class.

    Attributes:
        plugin: the predicate's class.
        cases: what it says.
    """

    plugin: ClassVar[type[Predicate[Any]]]
    cases: ClassVar[Sequence[PredicateCase]]

    def test_it_says_of_records_what_it_should(self) -> None:
        """In every case, as often as it is asked, and without changing the record."""
        for number, (settings, record, expected) in enumerate(self.cases):
            predicate = self.plugin()
            predicate.configure(settings)
            before = deepcopy(record)
            assert predicate.test(record) is expected, f"case {number}"
            assert predicate.test(record) is expected, f"case {number}, asked again"
            assert record == before, f"case {number}"
            predicate.close()
            predicate.close()

    def test_a_record_without_key_and_value_is_no_surprise(self) -> None:
        """It is judged, or is a `DataError`."""
        for settings, record, _ in self.cases:
            predicate = self.plugin()
            predicate.configure(settings)
            with may_raise(DataError):
                predicate.test(record.replaced(key=None, key_schema=None, value=None, value_schema=None))


def _kinds(record: ConnectRecord) -> list[ConnectRecord]:
    """Return the record as one of a source and one of a sink."""
    common = {
        name: getattr(record, name)
        for name in ("topic", "partition", "key", "key_schema", "value", "value_schema", "timestamp_ms", "headers")
    }
    return [
        SourceRecord(**common, source_partition={"part": 1}, source_offset={"position": 4711}),
        SinkRecord(**common, offset=4711, original_topic="original", original_partition=3),
    ]


def transform_suite(
    transform: type[Transform[Any]],
    *,
    cases: Sequence[TransformCase],
    bad_settings: BadSettings = (),
    is_installed: bool = True,
) -> type[TransformSuite]:
    """Return the suite for a transform; give it a name that begins with ``Test``.

    Args:
        transform: the class.
        cases: settings, a record, and what becomes of it; the first case's settings are taken as the valid ones.
        bad_settings: changes to the settings, each with the keys that must be named as at fault.
        is_installed: whether the plugin's distribution is installed.
    """
    assert cases, "there is nothing to show without a case"
    return make_suite(
        TransformSuite,
        transform,
        left_out=[] if is_installed else ["test_an_entry_point_declares_the_class"],
        valid_settings=cases[0][0],
        bad_settings=bad_settings,
        cases=cases,
    )


def predicate_suite(
    predicate: type[Predicate[Any]],
    *,
    cases: Sequence[PredicateCase],
    bad_settings: BadSettings = (),
    is_installed: bool = True,
) -> type[PredicateSuite]:
    """Return the suite for a predicate; give it a name that begins with ``Test``. See `transform_suite`."""
    assert cases, "there is nothing to show without a case"
    return make_suite(
        PredicateSuite,
        predicate,
        left_out=[] if is_installed else ["test_an_entry_point_declares_the_class"],
        valid_settings=cases[0][0],
        bad_settings=bad_settings,
        cases=cases,
    )

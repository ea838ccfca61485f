"""Transforms in their order, with their predicates."""

import pytest

from ottla_connect.task.measures import ErrorMeasures
from ottla_connect.task.pipeline.error_handler import ErrorHandler, ToleranceExceeded
from ottla_connect.task.pipeline.errors import ErrorPolicy
from ottla_connect.task.pipeline.transform_chain import TransformChain, make_steps
from ottla_sdk import InvalidConfig, SourceRecord
from ottla_sdk.runtime.plugin_lookup import PluginLookup, PluginNotFound

ADD = {"transforms": "add", "transforms.add.type": "AddOne", "transforms.add.field": "position"}
WHERE_ODD = {
    **ADD,
    "transforms.add.predicate": "odd",
    "predicates": "odd",
    "predicates.odd.type": "ottla_test_plugins.IsOdd",
}


def chain(settings, *, tolerant=False):
    handler = ErrorHandler(
        task="t-0",
        policy=ErrorPolicy(tolerant=tolerant, retry_timeout_ms=60_000),
        measures=ErrorMeasures(),
        wait=lambda seconds: False,
        described=str,
    )
    return TransformChain(make_steps(settings, PluginLookup()), handler)


def positions(settings, values=(0, 1, 2), **options):
    made = chain(settings, **options)
    results = []
    for value in values:
        record = SourceRecord(topic="t", value={"position": value}, source_partition={}, source_offset={})
        changed = made.apply(record, record)
        results.append(None if changed is None else changed.value["position"])
    return results


def test_without_transforms_the_chain_is_empty():
    assert not chain({})


def test_transforms_are_applied_in_their_order():
    assert positions({**ADD, "transforms": "add,again", "transforms.again.type": "AddOne",
                      "transforms.again.field": "position"}) == [2, 3, 4]  # fmt: skip


def test_a_predicate_says_where_a_transform_applies():
    assert positions(WHERE_ODD) == [0, 2, 2]


def test_a_negated_predicate_says_where_it_does_not():
    assert positions({**WHERE_ODD, "transforms.add.negate": "true"}) == [1, 1, 3]


def test_a_failing_transform_fails_the_task():
    with pytest.raises(ToleranceExceeded, match=r"TRANSFORMATION failed in ottla_test_plugins\.transforms\.AddOne"):
        positions({**ADD, "transforms.add.field": "no such"})


def test_a_record_with_which_a_transform_fails_is_skipped_where_errors_are_tolerated():
    settings = {
        "transforms": "f",
        "transforms.f.type": "Faulty",
        "transforms.f.fault.where": "apply",
        "transforms.f.fault.kind": "data",
        "transforms.f.fault.after": "1",
        "transforms.f.fault.times": "1",
    }
    assert positions(settings, tolerant=True) == [0, None, 2]


def test_only_the_step_that_failed_is_tried_again():
    settings = {**ADD, "transforms": "add,f", "transforms.f.type": "Faulty", "transforms.f.fault.where": "apply",
                "transforms.f.fault.kind": "retriable", "transforms.f.fault.times": "2"}  # fmt: skip
    assert positions(settings) == [1, 2, 3]


def test_a_wrong_class_or_setting_is_told():
    with pytest.raises(PluginNotFound, match="no installed plugin has a transform NoSuch"):
        chain({"transforms": "x", "transforms.x.type": "NoSuch"})
    with pytest.raises(InvalidConfig, match="field: must be set"):
        chain({"transforms": "x", "transforms.x.type": "AddOne"})

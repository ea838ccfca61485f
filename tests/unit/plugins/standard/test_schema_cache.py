"""Caches by schema are bounded and tell schemas apart."""

from dataclasses import replace

import pytest

from ottla_sdk.schema import INT32, STRING, struct_schema
from ottla_sdk.schema_cache import SchemaCache


def test_what_was_made_of_an_equal_schema_is_found_again():
    made = []
    cache = SchemaCache(lambda schema: made.append(schema) or object(), 4)
    one = struct_schema({"a": INT32})
    assert cache.get(one) is cache.get(one) is cache.get(struct_schema({"a": INT32}))
    assert cache.get(one) is not cache.get(replace(one, doc="other"))
    assert len(made) == 2


def test_only_so_many_are_kept():
    cache = SchemaCache(lambda schema: object(), 2)
    kept = cache.get(STRING)
    for number in range(10):
        cache.get(struct_schema({f"f{number}": INT32}))
        cache.get(struct_schema({"f0": INT32}))
    assert len(cache) == 2
    assert cache.get(STRING) is not kept


def test_a_failure_is_not_remembered():
    failures = [ValueError, None]

    def make(_schema):
        if failure := failures.pop(0):
            raise failure
        return "made"

    cache = SchemaCache(make, 2)
    with pytest.raises(ValueError):  # noqa: PT011 - raised above
        cache.get(STRING)
    assert cache.get(STRING) == "made"

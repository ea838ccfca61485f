"""The tests that every plugin passes, and what a plugin's own tests need to run without a worker.

One line in a test module runs all of them:

    TestWeatherSource = source_connector_suite(WeatherSource, settings={"topic": "weather", …}, expect_records=10)

`settings` may be a function of a fresh directory, for plugins that read or write files there. `contexts.py` has
contexts that live in memory; `source_run.py` and `sink_run.py` run a connector's tasks as a worker does;
`source_misfortunes.py` and `sink_misfortunes.py` ask what becomes of takeovers, outages and topics created anew. This
package needs pytest; the rest of the SDK does not.
"""

import pytest

pytest.register_assert_rewrite(
    "ottla_sdk.conformance.config_provider_suite",
    "ottla_sdk.conformance.configuration",
    "ottla_sdk.conformance.converter_suite",
    "ottla_sdk.conformance.plugin_suite",
    "ottla_sdk.conformance.sink_misfortunes",
    "ottla_sdk.conformance.sink_run",
    "ottla_sdk.conformance.sink_suite",
    "ottla_sdk.conformance.source_misfortunes",
    "ottla_sdk.conformance.source_run",
    "ottla_sdk.conformance.source_suite",
    "ottla_sdk.conformance.transform_suite",
)

from ottla_sdk.conformance.config_provider_suite import config_provider_suite  # noqa: E402
from ottla_sdk.conformance.contexts import (  # noqa: E402
    MemoryConnectorContext,
    MemoryMetrics,
    MemoryOffsets,
    MemorySinkTaskContext,
    MemorySourceConnectorContext,
    MemorySourceTaskContext,
)
from ottla_sdk.conformance.converter_suite import converter_suite  # noqa: E402
from ottla_sdk.conformance.sink_run import SinkRun, sink_records  # noqa: E402
from ottla_sdk.conformance.sink_suite import sink_connector_suite  # noqa: E402
from ottla_sdk.conformance.source_run import SourceRun  # noqa: E402
from ottla_sdk.conformance.source_suite import source_connector_suite  # noqa: E402
from ottla_sdk.conformance.transform_suite import predicate_suite, transform_suite  # noqa: E402

__all__ = [
    "MemoryConnectorContext",
    "MemoryMetrics",
    "MemoryOffsets",
    "MemorySinkTaskContext",
    "MemorySourceConnectorContext",
    "MemorySourceTaskContext",
    "SinkRun",
    "SourceRun",
    "config_provider_suite",
    "converter_suite",
    "predicate_suite",
    "sink_connector_suite",
    "sink_records",
    "source_connector_suite",
    "transform_suite",
]

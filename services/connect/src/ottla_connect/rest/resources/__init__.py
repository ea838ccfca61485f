"""The resources of the REST API, one file for each of Kafka Connect's groups of them."""

import ottla_core.rest.path_segments  # noqa: F401 - has the paths of all resources know `segment`

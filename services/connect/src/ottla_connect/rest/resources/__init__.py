"""The resources of the REST API, one file for each of Kafka Connect's groups of them."""

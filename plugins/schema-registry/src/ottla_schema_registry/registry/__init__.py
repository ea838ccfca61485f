"""A client of schema registries that speak Confluent's API: Confluent's own, Karapace, Apicurio's, Redpanda's."""

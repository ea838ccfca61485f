"""Ottla's console: a web page to see into Kafka clusters, and to act on them."""

"""Brokers, topics and replicas of a cluster: asking, planning, changing."""

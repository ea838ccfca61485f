"""Decides what runs on this worker, and answers for the connectors."""

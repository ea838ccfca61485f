"""Compaction of all logs, in processes of its own."""

"""Runs sink tasks."""

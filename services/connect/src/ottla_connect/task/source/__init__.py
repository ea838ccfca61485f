"""Runs source tasks."""

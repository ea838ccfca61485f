"""Runs tasks that move their data by themselves."""

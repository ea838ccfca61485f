"""Profiles: where several clusters are, and how they are reached."""

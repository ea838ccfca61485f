"""Membership in a group of the classic protocol: its coordinator, its requests, until when a member may act."""

"""Checks of clients' rights before handlers: a handler gets the part of a request that its client may do."""

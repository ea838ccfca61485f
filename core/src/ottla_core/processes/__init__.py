"""Processes that are forked from one that has done their imports: Connect's tasks, a local cluster's services."""

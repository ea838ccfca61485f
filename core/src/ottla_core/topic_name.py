"""Kafka's rules for topic names. Pure."""

import re

from ottla_core.errors import InvalidTopic

TOPIC_NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Refuse a name that cannot be a topic's, because it becomes part of file names and metric names.

    Raises:
        InvalidTopic: says which rule the name breaks. Source: Kafka's Topic.validate.
    """
    problem = ""
    if not name:
        problem = "the empty string is not allowed"
    elif name in {".", ".."}:
        problem = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if problem:
        raise InvalidTopic(f"Topic name is invalid: {problem}")


def canonical_topic_name(name: str) -> str:
    """Return what topics that metrics cannot tell apart have in common: '.' and '_' look alike there."""
    return name.replace(".", "_")

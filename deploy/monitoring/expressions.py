"""Expressions of PromQL against the catalogue of metrics: every metric and every label that one names has to exist.

An expression is cut into words, not understood: a word is a metric unless it is a function, a keyword, or stands in a
list of labels. That is enough for what dashboards and rules here say; Prometheus itself looks at the rest.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ottla_core.observe.catalogue import CATALOGUE
from ottla_core.observe.catalogue.definition import Kind

OF_SCRAPES: Final = frozenset({"job", "instance", "cluster"})
"""Labels that the settings of Prometheus give to every series."""
OF_HISTOGRAMS: Final = ("_bucket", "_sum", "_count")
BOUND: Final = "le"
KEYWORDS: Final = frozenset({"and", "or", "unless", "offset", "bool", "inf"})
AGGREGATED: Final = frozenset({"by", "without", "("})
"""What stands behind a function."""
BEFORE_LABELS: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})

FOREIGN: Final = {
    "up": (),
    "etcd_server_has_leader": (),
    "etcd_mvcc_db_total_size_in_bytes": (),
    "etcd_mvcc_db_total_size_in_use_in_bytes": (),
    "etcd_server_quota_backend_bytes": (),
    "etcd_disk_wal_fsync_duration_seconds_bucket": (BOUND,),
}
"""Metrics of Prometheus and of etcd, with their labels."""

_WORD = re.compile(
    r"""(?P<text>"[^"]*")|(?P<number>\d[\w.]*)|(?P<variable>\$\w+)|(?P<name>[a-zA-Z_:][\w:]*)|(?P<sign>[^\s\w])"""
)


class ExpressionError(ValueError):
    """An expression names what does not exist."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric with what its labels have to be.

    Attributes:
        metric: its name.
        labels: the names of labels that are matched.
        text: the whole, as it stands in the expression.
    """

    metric: str
    labels: Sequence[str]
    text: str


def check(expression: str, recorded: Collection[str] = ()) -> None:
    """Look whether an expression's metrics and labels exist.

    Args:
        expression: PromQL, with variables of Grafana or without.
        recorded: names that recording rules make.

    Raises:
        ExpressionError: one does not; the message names it.
    """
    grouped, found = _parsed(expression)
    if not found:
        raise ExpressionError(f"no metric in {expression}")
    known: set[str] = set(OF_SCRAPES)
    for selector in found:
        if selector.metric in recorded:
            known.update(grouped)  # the rule that records it is checked itself
            continue
        labels = {*labels_of(selector.metric), *OF_SCRAPES}
        if unknown := set(selector.labels) - labels:
            raise ExpressionError(f"{selector.metric} has no label {', '.join(sorted(unknown))}: {expression}")
        known |= labels
    if unknown := grouped - known:
        raise ExpressionError(f"no metric here has the label {', '.join(sorted(unknown))}: {expression}")


def labels_of(metric: str) -> Sequence[str]:
    """Return the labels of a metric as Prometheus names it.

    Raises:
        ExpressionError: there is none of that name.
    """
    if metric in FOREIGN:
        return FOREIGN[metric]
    if metric in CATALOGUE and CATALOGUE[metric].kind is not Kind.HISTOGRAM:
        return CATALOGUE[metric].label_names
    for suffix in OF_HISTOGRAMS:
        base = CATALOGUE.get(metric.removesuffix(suffix))
        if metric.endswith(suffix) and base is not None and base.kind is Kind.HISTOGRAM:
            return (*base.label_names, *([BOUND] if suffix == "_bucket" else []))
    raise ExpressionError(f"the catalogue has no metric {metric}")


def selectors(expression: str) -> Sequence[Selector]:
    """Return every selector of an expression, in order."""
    return _parsed(expression)[1]


def _parsed(expression: str) -> tuple[set[str], Sequence[Selector]]:
    """Return the labels by which an expression groups or joins, and its selectors."""
    words = list(_WORD.finditer(expression))
    grouped: set[str] = set()
    found: list[Selector] = []
    at = 0
    while at < len(words):
        word, following = words[at], words[at + 1][0] if at + 1 < len(words) else ""
        if word["name"] is None:
            at = _end_of_range(words, at) if word[0] == "[" else at + 1
        elif word[0] in BEFORE_LABELS and following == "(":
            end = _closing(words, at, ")")
            grouped.update(each[0] for each in words[at + 2 : end] if each["name"])
            at = end + 1
        elif word[0].lower() in KEYWORDS or word[0] in BEFORE_LABELS or following in AGGREGATED:
            at += 1
        else:
            end = _closing(words, at, "}") if following == "{" else at
            labels = tuple(_matched(words[at + 2 : end]))
            found.append(Selector(word[0], labels, expression[word.start() : words[end].end()]))
            at = end + 1
    return grouped, found


def _closing(words: Sequence[re.Match[str]], begin: int, sign: str) -> int:
    for at in range(begin, len(words)):
        if words[at][0] == sign:
            return at
    raise ExpressionError(f"{sign} is missing behind {words[begin][0]}")


def _end_of_range(words: Sequence[re.Match[str]], begin: int) -> int:
    return _closing(words, begin, "]") + 1


def _matched(words: Sequence[re.Match[str]]) -> Iterator[str]:
    for at, word in enumerate(words):
        if word["name"] and (at == 0 or words[at - 1][0] == ","):
            yield word[0]

"""What the console shows of itself: requests, sessions, questions to clusters, actions."""

from contextlib import ExitStack

from ottla_console.access.audit_log import AuditLog
from ottla_console.access.guard import RequestCounts
from ottla_console.pages.visit import Console
from ottla_core.config import MetricsSettings
from ottla_core.observe.catalogue.definition import ProcessRole
from ottla_core.observe.metrics import Metrics, counted
from ottla_core.observe.publishing import publish_metrics


def serve_metrics(settings: MetricsSettings, console: Console, counts: RequestCounts, audit: AuditLog) -> ExitStack:
    """Begin to show the metrics; closing what is returned ends it.

    Raises:
        MetricsError: the endpoint's port is in use.
    """
    metrics = Metrics(ProcessRole.CONSOLE, "console")
    metrics.show("ottla_console_requests_total", counted("status", counts.answers))
    metrics.show_value("ottla_console_requests_refused_total", lambda: counts.refused)
    metrics.show_value("ottla_console_sessions", lambda: len(console.sessions))
    metrics.show_value("ottla_console_watches", lambda: len(console.watches))
    metrics.show_value("ottla_console_tails", lambda: console.tails.open)
    metrics.show_value("ottla_console_questions", lambda: console.threads.under_way)
    metrics.show_value("ottla_console_questions_refused_total", lambda: console.threads.refused)
    metrics.show("ottla_console_sign_ins_delayed_total", counted("by", console.brake.delayed))
    metrics.show("ottla_console_actions_total", counted("outcome", audit.outcomes))
    return publish_metrics(metrics, settings)

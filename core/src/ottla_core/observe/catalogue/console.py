"""What the console shows."""

from typing import Final

from ottla_core.observe.catalogue.definition import Label, MetricDefinition, MetricFamily, ProcessRole

_console = MetricFamily(ProcessRole.CONSOLE)

STATUS = Label("status", "class of an HTTP status, such as 2xx", "four")
BY = Label("by", "what had failed too often: user or address", "two")
OUTCOME = Label("outcome", "done, failed or refused", "three")

CONSOLE: Final[tuple[MetricDefinition, ...]] = (
    _console.counter("ottla_console_requests_total", "Requests that were answered.", STATUS),
    _console.counter(
        "ottla_console_requests_refused_total", "Requests that pages of other sites, or by other names, have made."
    ),
    _console.gauge("ottla_console_sessions", "Users who are signed in; those who are just gone count for a while."),
    _console.gauge("ottla_console_watches", "Pairs of user and cluster whose answers and connections are kept."),
    _console.gauge("ottla_console_tails", "Browsers that are shown messages as they arrive."),
    _console.gauge("ottla_console_questions", "Questions to clusters that are under way or wait."),
    _console.counter("ottla_console_questions_refused_total", "Questions that were refused as there were too many."),
    _console.counter(
        "ottla_console_sign_ins_delayed_total", "Sign-ins that were told to wait, as too many had failed before.", BY
    ),
    _console.counter("ottla_console_actions_total", "Actions of users, sign-ins among them.", OUTCOME),
)

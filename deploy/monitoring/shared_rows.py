"""What several dashboards show."""

from typing import Final

from deploy.monitoring.dashboard import Row, Variable, graph

RATE: Final = "[$__rate_interval]"
"""The span of a rate, as Grafana chooses it by the zoom and the interval of scrapes."""
CONNECTOR: Final = Variable("connector", "Connector", "ottla_connect_tasks")
BROKER: Final = Variable("instance", "Broker", "ottla_broker_connections")


def quantile(share: float, histogram: str, by: str) -> str:
    """Return the time that this share of what a histogram counted stays below."""
    return f"histogram_quantile({share}, sum by ({by}, le) (rate({histogram}_bucket{{@}}{RATE})))"


def of_process(role: str) -> Row:
    """Return what can be said of every process of a role."""
    job = f'job="ottla-{role}",@'
    return Row(
        "Process",
        [
            graph(
                "Processor",
                "percentunit",
                "Share of one processor; a process uses little more than one.",
                (f"rate(process_cpu_seconds_total{{{job}}}{RATE})", "{{instance}}"),
                width=6,
            ),
            graph(
                "Memory",
                "bytes",
                "Memory that is in RAM.",
                (f"process_resident_memory_bytes{{{job}}}", "{{instance}}"),
                width=6,
            ),
            graph(
                "Event loop delay",
                "s",
                "How late the process comes to what is due: 99 of 100 times less.",
                (
                    "histogram_quantile(0.99, sum by (instance, le) "
                    f"(rate(ottla_event_loop_delay_seconds_bucket{{{job}}}{RATE})))",
                    "{{instance}}",
                ),
                width=6,
            ),
            graph(
                "Open files",
                "short",
                "Files and sockets that are open.",
                (f"process_open_fds{{{job}}}", "{{instance}}"),
                width=6,
            ),
        ],
    )

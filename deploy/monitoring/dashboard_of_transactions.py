"""The dashboard of transactions."""

from typing import Final

from deploy.monitoring.dashboard import Dashboard, Row, graph, number
from deploy.monitoring.shared_rows import RATE

TRANSACTIONS: Final = Dashboard(
    uid="ottla-transactions",
    title="Ottla: transactions",
    description="Transactions of producers, their ends, and what keeps readers of committed records waiting.",
    variables=[],
    rows=[
        Row(
            "Is it well?",
            [
                number(
                    "Open for longest",
                    "For how long the producer of the transaction that is open longest has written nothing. Readers"
                    " of committed records wait at it; beyond transaction.max.timeout.ms it hangs.",
                    "max(ottla_broker_open_transaction_silent_seconds_max{@})",
                    unit="s",
                    wrong_from=900,
                ),
                number(
                    "Open",
                    "Open transactions in partitions; one that is open in several partitions counts for each.",
                    "sum(ottla_broker_open_transactions{@})",
                ),
                number(
                    "Ending",
                    "Transactions of which the end is decided, and markers are missing in partitions.",
                    "sum(ottla_coordinator_transactions_ending{@})",
                ),
                number(
                    "Transactional ids",
                    "Transactional ids that coordinators know.",
                    "sum(ottla_coordinator_transactional_ids{@})",
                ),
                number(
                    "Markers repeated",
                    "Markers that were not written at the first attempt, in the last hour.",
                    "sum(increase(ottla_coordinator_markers_repeated_total{@}[1h]))",
                ),
            ],
        ),
        Row(
            "Ends",
            [
                graph(
                    "Ended",
                    "cps",
                    "Transactions by how they ended. Those that ended by a timeout, or because another producer took"
                    " their id, have lost their records.",
                    (f"sum by (result) (rate(ottla_coordinator_transactions_ended_total{{@}}{RATE}))", "{{result}}"),
                    is_stacked=True,
                ),
                graph(
                    "Markers",
                    "cps",
                    "Markers that were written into partitions, and that had to be sent again.",
                    (f"sum(rate(ottla_coordinator_markers_written_total{{@}}{RATE}))", "written"),
                    (f"sum(rate(ottla_coordinator_markers_repeated_total{{@}}{RATE}))", "repeated"),
                ),
                graph(
                    "Ending",
                    "short",
                    "Transactions that miss markers, by coordinator.",
                    ("ottla_coordinator_transactions_ending{@}", "{{instance}}"),
                ),
            ],
        ),
        Row(
            "Open transactions",
            [
                graph(
                    "Open",
                    "short",
                    "In replicas of each broker.",
                    ("ottla_broker_open_transactions{@}", "{{instance}}"),
                ),
                graph(
                    "Silent for",
                    "s",
                    "How long the producer of the transaction that is open longest has written nothing.",
                    ("ottla_broker_open_transaction_silent_seconds_max{@}", "{{instance}}"),
                ),
                graph(
                    "Transactional ids",
                    "short",
                    "By state of their last transaction.",
                    ("sum by (state) (ottla_coordinator_transactional_ids{@})", "{{state}}"),
                    is_stacked=True,
                ),
            ],
        ),
    ],
)

"""What the rules of transactions depend on, as plain values; `config.py` reads them. Defaults are Kafka's."""

from dataclasses import dataclass

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Settings of all transactions of a coordinator.

    Attributes:
        max_timeout_ms: the longest time for a transaction that a producer may ask for.
        expiration_ms: how long an id is remembered after its last change.
        abort_check_ms: how often is looked for transactions whose time is up.
        expiration_check_ms: how often is looked for ids to forget.
        two_phase_commit: whether producers may take part in two-phase commits of others (KIP-939): their transactions
            have no timeout, and may be kept when a producer begins anew.
        hold_ms: how long a request waits for the end of the last transaction, before its client has to come again.
        batch_bytes_max: what one turn may write; the `max.message.bytes` of the topic.
    """

    max_timeout_ms: int = 15 * MINUTE_MS
    expiration_ms: int = 7 * 24 * HOUR_MS
    abort_check_ms: int = 10 * SECOND_MS
    expiration_check_ms: int = HOUR_MS
    two_phase_commit: bool = False
    hold_ms: int = 100
    batch_bytes_max: int = 1024 * 1024

"""The broker's settings of logs, and of their compaction, as the log takes them."""

from ottla_broker.config import BrokerConfig
from ottla_broker.file_shares import share_files
from ottla_broker.log.cleaning.cleaner import CleanerSettings
from ottla_broker.log.partition.log_compaction import RoundLimits
from ottla_broker.log.store.log_duties import LogStoreSettings
from ottla_core.lifecycle import open_files_limit


def log_settings(config: BrokerConfig) -> LogStoreSettings:
    """Return how logs are kept, as the broker's settings say."""
    return LogStoreSettings(
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        flush_check_interval_ms=config.log_flush_scheduler_interval_ms,
        recovery_point_checkpoint_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        high_watermark_checkpoint_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
        recovery_threads_per_directory=config.num_recovery_threads_per_data_dir,
        producer_expiration_ms=config.producer_id_expiration_ms,
        producer_expiration_check_interval_ms=config.producer_id_expiration_check_interval_ms,
        open_files_max=share_files(open_files_limit()).segments,
        cleaner=cleaner_settings(config),
    )


def cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    """Return the limits of compaction, which Kafka's settings name for all workers together."""
    threads = config.log_cleaner_threads
    return CleanerSettings(
        enable=config.log_cleaner_enable,
        threads=threads,
        backoff_ms=config.log_cleaner_backoff_ms,
        limits=RoundLimits(
            map_bytes=config.log_cleaner_dedupe_buffer_size // threads,
            map_load_factor=config.log_cleaner_io_buffer_load_factor,
            buffer_bytes=config.log_cleaner_io_buffer_size // threads,
            bytes_per_second=config.log_cleaner_io_max_bytes_per_second / threads,
        ),
    )

"""Filter: drops records; a predicate says which. Pure."""

from ottla_sdk import ConnectRecord, PluginConfig, Transform
from ottla_standard.transforms.part import java_names


class Filter(Transform[PluginConfig]):
    """Drops all records; to be used with a predicate, or all are gone."""

    aliases = java_names("Filter")

    def apply(self, record: ConnectRecord) -> None:
        """Drop the record."""

"""Turns rows that are only marked as deleted into tombstones, which delete them where they arrive. Pure."""

from ottla_sdk import ConnectRecord, DataError, PluginConfig, Transform, setting
from ottla_sdk.config import Importance


class SoftDeleteConfig(PluginConfig):
    """Settings of `SoftDelete`."""

    field: str = setting(
        "field",
        doc="The value's field that marks a row as deleted: by being true, or by not being null where it holds when "
        "that was.",
        importance=Importance.HIGH,
        min_length=1,
    )


class SoftDelete(Transform[SoftDeleteConfig]):
    """Makes tombstones of rows that are marked as deleted.

    Sources that look for new and changed rows cannot see a row that has gone. An application that marks rows instead,
    in a column such as `deleted` or `deleted_at`, and changes their timestamp with it, has its deletes passed on by
    this. Records need a key (`key.mode` of the SQL source), which is what is left of them.
    """

    config_model = SoftDeleteConfig

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record, or a tombstone with its key."""
        if record.value is None:
            return record
        field = self.config.field
        if not isinstance(record.value, dict):
            raise DataError(f"the record's value is no struct, and so has no field {field}")
        mark = record.value.get(field)
        if mark is None or mark is False:
            return record
        if record.key is None:
            raise DataError("the record has no key, so nobody would know what its tombstone deletes")
        return record.replaced(value=None, value_schema=None)

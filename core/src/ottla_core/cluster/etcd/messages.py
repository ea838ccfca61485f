"""etcd's protobuf messages as plain data. Pure."""

from ottla_core.cluster.etcd.key_value import KeyChange, KeyDeletion, KeyValue
from ottla_proto.gen.etcd import kv_pb2


def key_value(message: kv_pb2.KeyValue) -> KeyValue:
    """Return a key and its value."""
    return KeyValue(
        key=_key(message),
        value=message.value,
        create_revision=message.create_revision,
        mod_revision=message.mod_revision,
        lease_id=message.lease,
    )


def key_change(event: kv_pb2.Event) -> KeyChange:
    """Return what an event of a watch says."""
    if event.type == kv_pb2.Event.DELETE:
        return KeyDeletion(key=_key(event.kv), mod_revision=event.kv.mod_revision)
    return key_value(event.kv)


def _key(message: kv_pb2.KeyValue) -> str:
    # Somebody else's bytes below our prefix must not stop the watch; nobody will recognise the key.
    return message.key.decode(errors="replace")

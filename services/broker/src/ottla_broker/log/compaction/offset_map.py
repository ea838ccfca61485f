"""The newest offset of each key in the dirty part of a log: all that compaction has to remember, in bounded memory.

A key is kept as a 16-byte BLAKE2b digest beside its offset, so an entry takes 24 bytes however long the key is, and
no two keys that anybody can find have the same digest. (With MD5, which Kafka uses, a client could make two.)

The entries lie in one block of memory that is allocated at the start: buckets of 32, the digest choosing the bucket.
A bucket is searched by `bytearray.find`, which costs less than a microsecond, where probing slot by slot in Python
would take 50 steps in a table that is nine tenths full; a key whose bucket is full goes to the next one with room.
A dict from digest to offset would need 150 to 200 bytes per key. Role and interface follow Kafka's SkimpyOffsetMap.

Pure.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final

_DIGEST_BYTES: Final = 16
_OFFSET: Final = Struct("=q")
ENTRY_BYTES: Final = _DIGEST_BYTES + _OFFSET.size
_BUCKET_ENTRIES: Final = 32
BUCKET_BYTES: Final = _BUCKET_ENTRIES * ENTRY_BYTES

NO_OFFSET: Final = -1


class OffsetMap:
    """Maps keys to offsets.

    Attributes:
        capacity: the most keys that it takes.
        size: the keys it has.
    """

    __slots__ = ("_bucket_count", "_counts", "_table", "capacity", "size")

    def __init__(self, memory_bytes: int, load_factor: float, keys_max: int) -> None:
        """Allocate the map.

        Args:
            memory_bytes: what its entries may take.
            load_factor: the share of the entries that may be used.
            keys_max: as many keys can come at most; no more memory than they need is taken.
        """
        wanted = int(keys_max / load_factor) // _BUCKET_ENTRIES + 1
        self._bucket_count = max(1, min(memory_bytes // BUCKET_BYTES, wanted))
        self._table = bytearray(self._bucket_count * BUCKET_BYTES)
        self._counts = bytearray(self._bucket_count)
        self.capacity = max(1, int(self._bucket_count * _BUCKET_ENTRIES * load_factor))
        self.size = 0

    def put(self, key: bytes, offset: int) -> bool:
        """Note a key's newest offset; return False, and change nothing, if there is no room for another key."""
        digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        bucket = int.from_bytes(digest[:8], "little") % self._bucket_count
        table, counts = self._table, self._counts
        for _ in range(self._bucket_count):
            start = bucket * BUCKET_BYTES
            count = counts[bucket]
            end = start + count * ENTRY_BYTES
            found = table.find(digest, start, end)
            while found >= 0 and (found - start) % ENTRY_BYTES:  # across two entries, by chance
                found = table.find(digest, found + 1, end)
            if found >= 0:
                _OFFSET.pack_into(table, found + _DIGEST_BYTES, offset)
                return True
            if count < _BUCKET_ENTRIES:
                if self.size == self.capacity:
                    return False
                table[end : end + _DIGEST_BYTES] = digest
                _OFFSET.pack_into(table, end + _DIGEST_BYTES, offset)
                counts[bucket] = count + 1
                self.size += 1
                return True
            bucket = (bucket + 1) % self._bucket_count
        return False

    def get(self, key: bytes) -> int:
        """Return a key's newest offset, or -1."""
        digest = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        bucket = int.from_bytes(digest[:8], "little") % self._bucket_count
        table, counts = self._table, self._counts
        for _ in range(self._bucket_count):
            start = bucket * BUCKET_BYTES
            count = counts[bucket]
            end = start + count * ENTRY_BYTES
            found = table.find(digest, start, end)
            while found >= 0 and (found - start) % ENTRY_BYTES:
                found = table.find(digest, found + 1, end)
            if found >= 0:
                offset: int = _OFFSET.unpack_from(table, found + _DIGEST_BYTES)[0]
                return offset
            if count < _BUCKET_ENTRIES:
                break
            bucket = (bucket + 1) % self._bucket_count
        return NO_OFFSET

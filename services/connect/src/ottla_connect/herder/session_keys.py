"""The key with which workers sign what they ask of each other (KIP-507): made by the leader, replaced by and by."""

import asyncio
import hashlib
import secrets
import time

import structlog

from ottla_connect.config import SIGNATURE_HASHES, WorkerConfig
from ottla_connect.state.config_records import SessionKey
from ottla_connect.state.config_store import ConfigStore
from ottla_connect.state.keyed_log import LogError
from ottla_core.background import start_recurring

BITS_PER_BYTE = 8
RETRY_S = 5.0

log = structlog.get_logger("session keys")


class SessionKeys:
    """Keeps a fresh key in the configuration topic while this worker leads."""

    def __init__(self, config: WorkerConfig, store: ConfigStore) -> None:
        self._lifetime_s = config.inter_worker_key_ttl_ms / 1000
        self._algorithm = config.inter_worker_key_generation_algorithm
        digest_size = hashlib.new(SIGNATURE_HASHES[self._algorithm]).digest_size
        self._key_bytes = (config.inter_worker_key_size or digest_size * BITS_PER_BYTE) // BITS_PER_BYTE
        self._store = store
        self._keeping: asyncio.Task[None] | None = None

    def lead(self, *, leads: bool) -> None:
        """Begin to look after the key, or leave it to another worker."""
        if leads and self._keeping is None:
            self._keeping = start_recurring("session key", self._keep)
        elif not leads and self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None

    async def _keep(self) -> None:
        while True:
            key = self._store.state.session_key
            now_ms = int(time.time() * 1000)
            age_s = (now_ms - key.created_ms) / 1000 if key is not None else self._lifetime_s
            if age_s < self._lifetime_s:
                await asyncio.sleep(self._lifetime_s - age_s)
                continue
            fresh = SessionKey(key=secrets.token_bytes(self._key_bytes), algorithm=self._algorithm, created_ms=now_ms)
            try:
                await self._store.put_session_key(fresh)
            except LogError as error:
                log.warning("the session key cannot be stored", reason=str(error))
                await asyncio.sleep(RETRY_S)

"""Reads the bundle state channel of PIP-192 by the official client.

Its topic is compacted, so a read from its beginning gives the last valid record of each bundle. Two
brokers may assign a bundle at once. Both records are in the topic, and the second is invalid:
brokers ignore it. A reader that used it would report `Assigning` for ever for an `Owned` bundle.
"""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from counterpoise.decide.watchdog.observation import ChannelRecord
from counterpoise.names.callbacks import SentenceSink
from counterpoise.ownership.channel.data import ServiceUnitStateData
from counterpoise.ownership.channel.transitions import Storage, refusal
from counterpoise.ownership.records import InvalidRecord

TOPIC = "persistent://pulsar/system/loadbalancer-service-unit-state"
WAIT_MS = 5000
ANSWERS_WITHIN_S = 10
"""How many seconds a cluster may take until the watchdog can read the channel."""


class Channel:
    """Reads the bundle state channel of one cluster repeatedly, over one connection; not
    thread-safe.

    `report` gets a sentence, once, when the channel cannot be read. Raises `ImportError` without
    `pulsar-client`.
    """

    def __init__(
        self, service_url: str, report: SentenceSink, *, answers_within_s: int = ANSWERS_WITHIN_S
    ) -> None:
        import pulsar

        self._trouble: type[Exception] = pulsar.PulsarException
        self._report = report
        self._reported = ""

        # The client's library would log each failed try, while `report` is called once.
        quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
        self._client = pulsar.Client(
            service_url, operation_timeout_seconds=answers_within_s, logger=quiet
        )
        self._start = pulsar.MessageId.earliest
        self._reader: Any = None
        self._records: dict[str, ServiceUnitStateData] = {}

    def read(self) -> Mapping[str, ChannelRecord] | None:
        """The last record of each bundle; None if the channel cannot be read now."""
        try:
            found = self._read()
        except self._trouble as error:
            sentence = f"the bundle state channel cannot be read: {error}"
            if sentence != self._reported:
                self._report(sentence)
            self._reported, self._reader, self._records = sentence, None, {}
            return None
        self._reported = ""
        return found

    def _read(self) -> Mapping[str, ChannelRecord]:
        if self._reader is None:
            self._reader = self._client.create_reader(TOPIC, self._start, is_read_compacted=True)
        while self._reader.has_message_available():
            message = self._reader.read_next(WAIT_MS)
            bundle, data = message.partition_key(), message.data()
            if not data:
                self._records.pop(bundle, None)
                continue
            with contextlib.suppress(InvalidRecord):
                record = ServiceUnitStateData.from_json(data)
                if refusal(self._records.get(bundle), record, Storage.SYSTEM_TOPIC) is None:
                    self._records[bundle] = record
        return {
            bundle: ChannelRecord(
                record.state.value, record.destination or record.source or "", record.timestamp_ms
            )
            for bundle, record in self._records.items()
        }

    def close(self) -> None:
        """Close the connection to the cluster."""
        self._client.close()

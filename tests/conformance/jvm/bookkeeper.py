"""What BookKeeper's and Pulsar's own classes write of ledgers, entries and cursors."""

from typing import Any

from jpype import JArray, JByte, JClass, JLong, JObject, JShort

from tests.conformance.jvm.java import Java, Json

PROTO = "org.apache.bookkeeper.mledger.proto.MLDataFormats"

RECOVERY_ADD = 2 | 4
FENCE = 1 | 4
"""Each with high priority, as a recovery asks."""


class BookKeeperBytes:
    """Writes what a case describes, each thing by the class that a broker uses for it."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self._kind = JClass("org.apache.bookkeeper.client.api.DigestType")
        self._stored_kind = JClass(
            "org.apache.bookkeeper.proto.DataFormats$LedgerMetadataFormat$DigestType"
        )
        self._builder = JClass("org.apache.bookkeeper.client.LedgerMetadataBuilder")
        self._serialize = JClass("org.apache.bookkeeper.meta.LedgerMetadataSerDe")().serialize
        self._bookie = JClass("org.apache.bookkeeper.net.BookieId")
        self._path = JClass("org.apache.bookkeeper.util.StringUtils")
        self._schedule = JClass("org.apache.bookkeeper.client.RoundRobinDistributionSchedule")
        self._digests = JClass("org.apache.bookkeeper.proto.checksum.DigestManager")
        self._generate = JClass("org.apache.bookkeeper.client.LedgerHandle")
        self._unpooled = JClass("io.netty.buffer.Unpooled")
        self._buffers = JClass("org.apache.bookkeeper.util.ByteBufList")
        allocator = JClass("io.netty.buffer.UnpooledByteBufAllocator")
        self._allocator = allocator.DEFAULT

    def answer(self, case: Json) -> Json:
        ledger = case["ledger"]
        return {
            "path": str(self._path.getHybridHierarchicalLedgerPath(ledger["id"])),
            "metadata": _hex(self._serialize(self._metadata(ledger))),
            "stored": [self._packed(ledger, each, v2=False) for each in case["entries"]],
            "adds": [self._packed(ledger, each, v2=True) for each in case["entries"]],
            "fencing reads": [self._fencing_read(ledger, entry) for entry in [-1, *case["reads"]]],
            "sets": self._sets(ledger, case["reads"]),
            "managed": _hex(self._managed(case["managed"])),
            "cursor": _hex(self._cursor(case["cursor"])),
            "positions": _hex(self._positions(case["cursor"]).build().toByteArray()),
            "bits": _hex(self._bits(case["cursor"])),
        }

    def _metadata(self, ledger: Json) -> Any:
        made = (
            self._builder.create()
            .withId(ledger["id"])
            .withMetadataFormatVersion(ledger["format"])
            .withEnsembleSize(ledger["ensemble"])
            .withWriteQuorumSize(ledger["write"])
            .withAckQuorumSize(ledger["ack"])
            .withDigestType(getattr(self._kind, ledger["digest"]))
            .withPassword(self._text(ledger["password"]))
            .withCreationTime(ledger["created"])
            .storingCreationTime(True)
            .withCToken(ledger["token"])
        )
        for first, names in ledger["segments"]:
            members = self._java.array_list()
            for name in names:
                members.add(self._bookie.parse(name))
            made.newEnsembleEntry(first, members)
        if ledger["state"] == "IN_RECOVERY":
            made.withInRecoveryState()
        if ledger["state"] == "CLOSED":
            made.withClosedState().withLastEntryId(ledger["last"]).withLength(ledger["length"])
        custom = self._java.linked_map()
        for key, value in ledger["custom"].items():
            custom.put(self._java.string(key), self._text(value))
        return made.withCustomMetadata(custom).build()

    def _packed(self, ledger: Json, entry: Json, *, v2: bool) -> str:
        """An entry as a bookie stores it; with ``v2`` the whole request that adds it."""
        kind = {"MAC": "HMAC"}.get(ledger["digest"], ledger["digest"])
        manager = self._digests.instantiate(
            ledger["id"],
            self._text(ledger["password"]),
            getattr(self._stored_kind, kind),
            self._allocator,
            v2,
        )
        payload = bytes.fromhex(entry["payload"])
        packed = manager.computeDigestAndPackageForSending(
            entry["entry"],
            entry["confirmed"],
            entry["length"],
            self._unpooled.wrappedBuffer(JArray(JByte)(payload)),
            self._digests.generateMasterKey(self._text(ledger["password"])),
            RECOVERY_ADD if entry["recovery"] else 0,
        )
        if isinstance(packed, self._buffers):
            return _hex(packed.toArray())
        return _hex(self._array_of(packed))

    def _fencing_read(self, ledger: Json, entry: int) -> str:
        """The request of a recovery."""
        protocol = "org.apache.bookkeeper.proto.BookieProtocol"
        key = self._digests.generateMasterKey(self._text(ledger["password"]))
        # For its own package alone.
        kind = JClass("java.lang.Class").forName(f"{protocol}$ReadRequest")
        create = next(each for each in kind.getDeclaredMethods() if each.getName() == "create")
        create.setAccessible(True)
        numbers = [JObject(JByte(2), JByte), JObject(JLong(ledger["id"]), JLong),
                   JObject(JLong(entry), JLong), JObject(JShort(FENCE), JShort)]  # fmt: skip
        request = create.invoke(None, [*numbers, key])
        coder = JClass("org.apache.bookkeeper.proto.BookieProtoEncoding$RequestEnDeCoderPreV3")
        return _hex(self._array_of(coder(None).encode(request, self._allocator)))

    def _array_of(self, buffer: Any) -> Any:
        return JClass("io.netty.buffer.ByteBufUtil").getBytes(buffer)

    def _sets(self, ledger: Json, reads: list[int]) -> list[list[int]]:
        sizes = (ledger["write"], ledger["ack"], ledger["ensemble"])
        schedule = self._schedule(*sizes)
        found = [schedule.getWriteSet(entry) for entry in reads]
        return [[int(each.get(at)) for at in range(each.size())] for each in found]

    def _managed(self, case: Json) -> Any:
        info = JClass(f"{PROTO}$ManagedLedgerInfo")
        made = info.newBuilder()
        for ledger, entries, size, closed, offloaded, deleted in case["ledgers"]:
            each = JClass(f"{PROTO}$ManagedLedgerInfo$LedgerInfo").newBuilder()
            each.setLedgerId(ledger).setEntries(entries).setSize(size).setTimestamp(closed)
            if offloaded or deleted:
                context = JClass(f"{PROTO}$OffloadContext").newBuilder()
                context.setComplete(offloaded).setBookkeeperDeleted(deleted).setUidMsb(1)
                each.setOffloadContext(context)
            made.addLedgerInfo(each)
        if case["terminated"]:
            made.setTerminatedPosition(self._nested(*case["terminated"]))
        for key, value in case["properties"].items():
            pair = JClass(f"{PROTO}$KeyValue").newBuilder()
            made.addProperties(
                pair.setKey(self._java.string(key)).setValue(self._java.string(value))
            )
        return self._store(case["compression"]).compressLedgerInfo(made.build())

    def _cursor(self, case: Json) -> Any:
        made = JClass(f"{PROTO}$ManagedCursorInfo").newBuilder()
        made.setCursorsLedgerId(case["ledger"])
        made.setMarkDeleteLedgerId(case["mark"][0]).setMarkDeleteEntryId(case["mark"][1])
        self._fill(made, case)
        for name, value in case["texts"].items():
            pair = JClass(f"{PROTO}$StringProperty").newBuilder()
            pair.setName(self._java.string(name)).setValue(self._java.string(value))
            made.addCursorProperties(pair)
        return self._store(case["compression"]).compressCursorInfo(made.build())

    def _positions(self, case: Json) -> Any:
        made = JClass(f"{PROTO}$PositionInfo").newBuilder()
        made.setLedgerId(case["mark"][0]).setEntryId(case["mark"][1])
        self._fill(made, case)
        return made

    def _bits(self, case: Json) -> Any:
        """The ranges as Pulsar's set of them gives words, which is how a cursor may be stored."""
        ranges = JClass("org.apache.pulsar.common.util.collections.OpenLongPairRangeSet")(None)
        for before, last in case["ranges"]:
            ranges.addOpenClosed(case["in"], before, case["in"], last)
        made = JClass(f"{PROTO}$PositionInfo").newBuilder()
        made.setLedgerId(case["mark"][0]).setEntryId(case["mark"][1])
        for each in ranges.toRanges(1000).entrySet():
            words = JClass(f"{PROTO}$LongListMap").newBuilder().setKey(each.getKey())
            for word in each.getValue():
                words.addValues(word)
            made.addIndividualDeletedMessageRanges(words)
        return made.build().toByteArray()

    def _fill(self, made: Any, case: Json) -> None:
        for before, last in case["ranges"]:
            pair = JClass(f"{PROTO}$MessageRange").newBuilder()
            pair.setLowerEndpoint(self._nested(case["in"], before))
            pair.setUpperEndpoint(self._nested(case["in"], last))
            made.addIndividualDeletedMessages(pair)
        for name, value in case["numbers"].items():
            number = JClass(f"{PROTO}$LongProperty").newBuilder()
            made.addProperties(number.setName(self._java.string(name)).setValue(value))

    def _nested(self, ledger: int, entry: int) -> Any:
        made = JClass(f"{PROTO}$NestedPositionInfo").newBuilder()
        return made.setLedgerId(ledger).setEntryId(entry)

    def _store(self, compression: str) -> Any:
        config = JClass("org.apache.bookkeeper.mledger.MetadataCompressionConfig")
        made = config(self._java.string(compression), 0)
        return JClass("org.apache.bookkeeper.mledger.impl.MetaStoreImpl")(None, None, made, made)

    def _text(self, text: str) -> Any:
        return self._java.string(text).getBytes("UTF-8")


def _hex(data: Any) -> str:
    return bytes(value & 0xFF for value in data).hex()

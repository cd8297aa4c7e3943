"""Pulsar's error codes, and the protocol violation that ends a connection."""

from enum import IntEnum


class ServerError(IntEnum):
    """The error codes of the protocol, by its names and numbers (``ServerError`` of 4.0.7).

    A client maps each to the exception that its documentation names.
    """

    UnknownError = 0
    MetadataError = 1
    PersistenceError = 2
    AuthenticationError = 3
    AuthorizationError = 4
    ConsumerBusy = 5
    ServiceNotReady = 6
    """Retry after a fresh lookup: the topic is, or is about to be, on another broker."""
    ProducerBlockedQuotaExceededError = 7
    ProducerBlockedQuotaExceededException = 8
    ChecksumError = 9
    UnsupportedVersionError = 10
    TopicNotFound = 11
    SubscriptionNotFound = 12
    ConsumerNotFound = 13
    TooManyRequests = 14
    TopicTerminatedError = 15
    ProducerBusy = 16
    InvalidTopicName = 17
    IncompatibleSchema = 18
    ConsumerAssignError = 19
    TransactionCoordinatorNotFound = 20
    InvalidTxnStatus = 21
    NotAllowedError = 22
    TransactionConflict = 23
    TransactionNotFound = 24
    ProducerFenced = 25


class ProtocolViolationError(Exception):
    """The peer violated the protocol; its connection cannot continue.

    ``what`` says which rule was violated, ``where`` names the frame: its command if that is known,
    and the offset of its first byte in the stream since the connection opened.
    """

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what, where)
        self.what = what
        self.where = where

    def __str__(self) -> str:
        return f"{self.what} (in {self.where})"

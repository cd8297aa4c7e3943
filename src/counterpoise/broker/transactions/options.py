"""Settings from broker.conf for transactions."""

from dataclasses import dataclass

from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """Settings of transactions: whether they are enabled, and their limits."""

    enabled: bool = option(False, "transactionCoordinatorEnabled")
    """Whether clients may publish and acknowledge in transactions."""
    open_max: int = option(0, "maxActiveTransactionsPerCoordinator", "transactions", low=0)
    """How many transactions of a coordinator may be open at once: NEW_TXN is not answered beyond
    that, as in Pulsar; 0 is 100,000."""
    requests_max: int = option(
        1000, "transactionBufferClientMaxConcurrentRequests", "requests", low=1
    )
    """How many requests to end a transaction on a topic or subscription a broker may have in
    progress at other brokers."""
    request_timeout_ms: int = option(
        3000, "transactionBufferClientOperationTimeoutInMills", "ms", low=1
    )
    """How long a coordinator waits for a topic or subscription before it repeats a request."""

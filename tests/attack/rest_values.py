"""Wrong and sound values of which the attack on the admin API makes its requests."""

from collections.abc import Sequence

NAMES = (
    *"""
    . .. %2E%2E %00 a%00b %0A a%0Ab %0D%0ASet-Cookie:%20x %7F %1B%5B2J %20 %09 a%20b %2F a%2Fb
    public%2Fdefault ..%2F..%2Fetc %25 %2525 %C3%A9 %E2%80%AE %F0%9F%92%A9 %FF %C3 %ED%A0%80
    %C0%AE % %zz %u0041 * ( [ (a%2B)%2B$ %7B%7D ' %22 %3Cscript%3E ; a;b=c $ ~ + a+b 0 -1 1e9
    NaN true null None 99999999999999999999 2147483648 1_0 %D9%A3 0x00000000_0xffffffff
    0x00000000_0x80000000 0xffffffff_0x00000000 _ 0x_0x LARGEST x-partition-0
    x-partition-2147483647 x-partition--1 -partition-0 __change_events public default
    """.split(),
    "x" * 255,
    "x" * 256,
    "x" * 1025,
    "x" * 4000,
    "x" * 9000,
    "%00" * 1000,
)
"""What a path's segment may be, percent-encoded already."""

GOOD: dict[str, Sequence[str]] = {
    "tenant": ("t0", "t1"),
    "namespace": ("n0", "n1"),
    "domain": ("persistent", "persistent", "non-persistent"),
    "topic": ("a", "b", "c-partition-0", "c"),
    "subscription": ("s", "%0A"),
    "bundle": ("0x00000000_0x40000000", "0x40000000_0x80000000", "LARGEST", "HOT"),
    "cluster": ("standalone", "c1"),
    "policy": ("p", "q"),
    "broker": ("127.0.0.1:1", "x"),
    "name": ("loadBalancerSheddingEnabled", "defaultNumPartitions", "clusterName"),
    "kind": ("topic", "destination"),
    "count": ("1",),
    "timestamp": ("0", "9999999999999"),
    "value": ("true", "5"),
}
"""Names of things that are there, and of some that are not."""

BODIES = (
    b"",
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1e400",
    b"NaN",
    b"Infinity",
    b"3.5",
    b"1.0",
    b'"x"',
    b'""',
    b"[]",
    b"{}",
    b"[null]",
    b'[{"a":[]}]',
    b'{"":null}',
    b"{",
    b'{"a":1,"a":2}',
    b"\xff\xfe",
    b'"\xc3"',
    b'"\\ud800"',
    b'{"\\ud800":1}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"9" * 5000,
    b"\x00",
    b"// x",
    b'"' + b"x" * 300_000 + b'"',
    b" " * 2_000_000,
    b"\xef\xbb\xbf{}",
    '"é\x7f"'.encode(),
)

MEMBERS = (
    *"""
    allowedClusters adminRoles bundles boundaries numBundles replication_clusters namespaces
    primary secondary auto_failover_policy policy_type parameters brokers partitions properties
    ledgerId entryId excluded isExcluded batchIndex publishThrottlingRateInMsg
    dispatchThrottlingRateInByte ratePeriodInSecond retentionTimeInMinutes retentionSizeInMB
    limitSize policy serviceUrl topicType allowAutoTopicCreation defaultNumPartitions
    peerClusterNames min_limit active bookkeeperEnsemble inactiveTopicDeleteMode
    subscriptionDispatchRate schema type
    """.split(),
)
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    -(2**63) - 1,
    1e308,
    0.5,
    "",
    "x",
    "(",
    "3",
    [],
    {},
    [None],
    ["x"],
    ["x", "x"],
    [[]],
    {"a": 1},
    "x" * 2000,
    "\n",
    "\x00",
    ["("],
    [1, 2],
    {"min_limit": "x"},
    ["standalone"],
    ["0x00000000", "0xffffffff"],
    "2147483647",
    "é",
    "..",
    100_000,
)
QUERIES = (
    *"""
    force=true force=maybe authoritative=true destinationBroker=x unload=true
    splitAlgorithmName=x splitAlgorithmName=specified_positions_divide mode=ALL mode=%00
    bundle=0x00000000_0xffffffff bundle=%00 topics=.. topics=%0A %00=%00 = &&& tenant=..
    tenant=public%2Fdefault perPartition=x backlogQuotaType=%0A %FF=%FF local=true
    checkAllowAutoCreation=true messagePosition=-1 property=%00
    """.split(),
    "",
    "force=" + "1" * 5000,
)
METHODS = ("GET", "PUT", "POST", "DELETE")
HEADERS: Sequence[dict[str, str]] = (
    *({"Content-Type": "application/json"},) * 8,
    {"Content-Type": "application/json; charset=klingon"},
    {"Content-Type": "text/plain; charset=utf-7"},
    {"Content-Type": "multipart/form-data; boundary=x"},
    {"Content-Encoding": "gzip", "Content-Type": "application/json"},
    {"Content-Encoding": "br"},
    {"Accept": "x", "X-Forwarded-For": "("},
    {"Expect": "200-maybe"},
)

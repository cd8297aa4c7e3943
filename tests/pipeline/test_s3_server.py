"""The S3 of the tests answers one client while another stands still in the middle of a write."""

import socket
from http.client import HTTPConnection

from tests.pipeline.s3_server import NAME, bucket


def test_a_client_that_stands_still_in_a_write_holds_up_no_other() -> None:
    with bucket() as endpoint:
        stopped = socket.create_connection(("127.0.0.1", endpoint.port), timeout=60)
        with stopped:
            head = f"PUT /{NAME}/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n"
            stopped.sendall(head.encode() + b"half")
            for name in ("b", "c"):  # the first may overtake the write that stands still
                other = HTTPConnection("127.0.0.1", endpoint.port, timeout=60)
                other.request("PUT", f"/{NAME}/{name}", b"whole")
                assert other.getresponse().status == 200
                other.close()
            assert endpoint.objects == ["b", "c"]

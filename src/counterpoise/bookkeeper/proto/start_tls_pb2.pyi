from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PacketHeader(_message.Message):
    __slots__ = ("version", "operation", "txnId")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    TXNID_FIELD_NUMBER: _ClassVar[int]
    version: int
    operation: int
    txnId: int
    def __init__(self, version: _Optional[int] = ..., operation: _Optional[int] = ..., txnId: _Optional[int] = ...) -> None: ...

class StartTls(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StartTlsRequest(_message.Message):
    __slots__ = ("header", "startTLSRequest")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STARTTLSREQUEST_FIELD_NUMBER: _ClassVar[int]
    header: PacketHeader
    startTLSRequest: StartTls
    def __init__(self, header: _Optional[_Union[PacketHeader, _Mapping]] = ..., startTLSRequest: _Optional[_Union[StartTls, _Mapping]] = ...) -> None: ...

class StartTlsResponse(_message.Message):
    __slots__ = ("header", "status", "startTLSResponse")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STARTTLSRESPONSE_FIELD_NUMBER: _ClassVar[int]
    header: PacketHeader
    status: int
    startTLSResponse: StartTls
    def __init__(self, header: _Optional[_Union[PacketHeader, _Mapping]] = ..., status: _Optional[int] = ..., startTLSResponse: _Optional[_Union[StartTls, _Mapping]] = ...) -> None: ...

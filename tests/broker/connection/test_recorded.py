"""What a recording of traffic has of a client's credentials: nothing."""

import pytest

from counterpoise.broker.connection.recorded import without_secrets
from counterpoise.wire.encode import frame_of
from counterpoise.wire.frames import cut_frames
from tests.wire import frames

SECRET = b"a secret"
DATA = {"auth_data": SECRET, "auth_method_name": "token"}


def test_a_connect_is_recorded_without_what_was_shown() -> None:
    fields = {"client_version": "c", "protocol_version": 21, "auth_method_name": "token"}
    shown = {"auth_data": SECRET, "original_auth_data": "a secret"}
    kept = without_secrets(frame_of(frames.command("connect", **fields, **shown)))
    [(command, _)] = cut_frames(kept)
    assert SECRET not in kept
    assert (command.connect.client_version, command.connect.auth_method_name) == ("c", "token")


@pytest.mark.parametrize("field", ["auth_response", "auth_challenge"])
def test_no_other_command_of_authentication_is_recorded(field: str) -> None:
    part = "response" if field == "auth_response" else "challenge"
    assert without_secrets(frame_of(frames.command(field, **{part: DATA}))) == b""


def test_any_other_frame_is_recorded_as_it_came() -> None:
    ping = frame_of(frames.command("ping"))
    assert without_secrets(ping) == ping
    assert without_secrets(ping[:4] + b"\x00\x00\x00\x01\xff") == b""

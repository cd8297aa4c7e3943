"""Reads keys and password files that settings name: by a URL, a path, or the content itself."""

import base64
import binascii
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from counterpoise.names.options import ConfigError


def read_named(setting: str, text: str) -> bytes:
    """Read a key that a setting gives as ``file:///path``, ``data:[type][;base64],…``, a path, or
    base64.

    Raises `ConfigError`, which never quotes the setting: it may be the secret.
    """
    if text.startswith("data:"):
        return _from_data_url(setting, text)
    path = unquote(urlsplit(text).path) if text.startswith("file:") else text
    try:
        # Looking up a long secret as a path raises an error.
        if text.startswith("file:") or Path(path).is_file():
            return Path(path).read_bytes()
    except OSError as error:
        if text.startswith("file:"):
            raise ConfigError(setting, f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        pass
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(
            setting, "is neither a file that is there, nor a data: URL, nor base64"
        ) from None


def _from_data_url(setting: str, text: str) -> bytes:
    kind, comma, data = text.removeprefix("data:").partition(",")
    if not comma:
        raise ConfigError(setting, "is a data: URL without a comma before the data")
    if not kind.endswith(";base64"):
        return unquote_to_bytes(data)
    try:
        return base64.b64decode(unquote_to_bytes(data), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(setting, "is a data: URL whose data is not base64") from None

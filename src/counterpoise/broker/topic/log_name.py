"""The name under which a topic's log is stored."""

from __future__ import annotations

import hashlib
from typing import Final

from counterpoise.names.topic import TopicName

_DIRECTORY_MAX: Final = 240


def log_name(topic: TopicName) -> str:
    """Under which name a topic's log is stored: ``tenant/namespace/persistent/topic``.

    A directory's name has at most 255 bytes: of a longer one the beginning and a digest stand.
    """
    last = topic.encoded_local_name
    if len(last) > _DIRECTORY_MAX:
        last = f"{last[:128]}~{hashlib.sha256(last.encode()).hexdigest()}"
    return "/".join((topic.tenant, topic.namespace, topic.domain, last))

"""The name under which a topic's log is stored."""

import hashlib
from typing import Final

from counterpoise.names.topic import TopicName

_DIRECTORY_MAX: Final = 240


def log_name(topic: TopicName) -> str:
    """The name of a topic's log: ``tenant/namespace/persistent/topic``.

    Each part can be a directory, whose name has at most 255 bytes; a longer one is cut and gets a
    digest.
    """
    last = topic.encoded_local_name
    if len(last) > _DIRECTORY_MAX:
        last = f"{last[:128]}~{hashlib.sha256(last.encode()).hexdigest()}"
    return "/".join((topic.tenant, topic.namespace, topic.domain, last))

"""Backlog quotas: completes them, and compares them with the retention policy."""

from collections.abc import Mapping

from counterpoise.admin.shapes import Json


def whole_quota(quota: Mapping[str, Json]) -> dict[str, Json]:
    """A backlog quota with all its members, its size under both names that Pulsar has for it."""
    numbers = {name: _number(value) for name, value in quota.items()}
    size = _size(numbers) or 0
    return {**numbers, "limit": size, "limitSize": size}


def exceeds_retention(quota: Json, retention: Json) -> bool:
    """Whether a backlog quota allows more bytes or seconds than the retention policy keeps."""
    if not isinstance(quota, dict) or not isinstance(retention, dict):
        return False
    kept = (retention.get("retentionSizeInMB") or 0) << 20
    kept_s = (retention.get("retentionTimeInMinutes") or 0) * 60
    return 0 < kept <= (_size(quota) or 0) or 0 < kept_s <= (quota.get("limitTime") or 0)


def _size(quota: Mapping[str, Json]) -> Json:
    """A quota's limit in bytes: ``limitSize``, or by its older name ``limit``; None without
    either.
    """
    size = quota.get("limitSize")
    return quota.get("limit") if size is None else size


def _number(value: Json) -> Json:
    """The number in a value that may be quoted; any other value as it is."""
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value

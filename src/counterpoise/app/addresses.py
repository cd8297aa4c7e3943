"""The admin addresses that a person names."""

from __future__ import annotations

from counterpoise.app.errors import UserError


def admin_urls(text: str) -> tuple[str, ...]:
    """Addresses separated by commas, without a slash at the end; raises `UserError`."""
    addresses = tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())
    for url in addresses or (text,):
        if not url.startswith(("http://", "https://")) or not url.partition("://")[2]:
            raise UserError(f"--admin-url {url}: expected http://host:port")
    return addresses

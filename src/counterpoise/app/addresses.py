"""Parses admin URLs and addresses to listen on from the command line."""

from urllib.parse import urlsplit

from counterpoise.app.errors import UserError


def admin_urls(text: str) -> tuple[str, ...]:
    """Split comma-separated admin URLs; raises `UserError` for an invalid one."""
    addresses = tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())
    for url in addresses or (text,):
        if not is_http_url(url):
            raise UserError(f"--admin-url {url}: expected http://host:port")
    return addresses


def is_http_url(url: str) -> bool:
    """Whether a text is an HTTP URL with a host and, if it names a port, a valid one."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an IPv6 address, or a port that is no number below 65,536
        return False


def listen_address(text: str | None) -> tuple[str, int] | None:
    """Parse ``PORT`` or ``HOST:PORT`` into host and port; None for None. Raises `UserError`."""
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UserError(f"--metrics {text}: expected PORT or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)

"""Reads a verb's options for notices to a webhook."""

import argparse

from counterpoise.pipeline.notify.formats import NoticeContext, NotifyFormat
from counterpoise.pipeline.notify.webhook import NotifyOptions, expect_url, read_secret


def notify_options(args: argparse.Namespace) -> NotifyOptions | None:
    """Return the webhook to notify, and how; None without ``--notify``. Raises `NotifyError`."""
    if args.notify is None:
        return None
    shape = NotifyFormat(args.notify_format)
    path = args.notify_secret_file
    return NotifyOptions(
        expect_url(args.notify, shape),
        shape,
        read_secret(path) if path is not None else b"",
        NoticeContext(args.notify_cluster, args.notify_link),
    )

"""Writes ``docs/UNREAD.md``: ``python scripts/unread_page.py > docs/UNREAD.md``."""

import sys
from textwrap import fill

from counterpoise.admin.policies import POLICIES, TOPIC_POLICIES
from counterpoise.app.settings.accepted import unread

HEAD = """\
# What is accepted and does nothing

A `broker.conf` of Apache Pulsar, and a policy that one of its tools sets, are taken as they are,
although this product does not do everything that Pulsar does. This page lists what is accepted and
read by nothing here. A broker says at its start which of these settings it was given with another
value than Pulsar's default, and says it again when one is set as dynamic configuration or as a
policy; `counterpoise doctor` says it of a file. A test holds this page against the code.
"""


def page() -> str:
    """The page's text."""
    explained = {name: why for name, why in sorted(unread().items()) if why}
    others = sorted(name for name, why in unread().items() if not why)
    policies, of_topics = (
        sorted(each.path for each in table if not each.is_read)
        for table in (POLICIES, TOPIC_POLICIES)
    )
    rows = "\n".join(f"| `{name}` | {why} |" for name, why in explained.items())
    return "\n".join(
        (
            HEAD,
            "## Policies of namespaces\n",
            "Stored, listed, and read by no broker:\n",
            _list(policies),
            "",
            "## Policies of topics\n",
            "Stored, listed, and read by no broker:\n",
            _list(of_topics),
            "",
            "## Load balancing and limits\n",
            "| setting | what it would do |\n| --- | --- |",
            rows,
            "",
            "## Everything else in broker.conf\n",
            _list(others),
            "",
        )
    )


def _list(names: list[str]) -> str:
    return fill(", ".join(f"`{name}`" for name in names), 99, break_long_words=False) + "."


if __name__ == "__main__":
    sys.stdout.write(page())

"""A test of this room that waits for what never comes fails at once."""

from tests.stuck import pytest_asyncio_loop_factories  # noqa: F401 - a hook

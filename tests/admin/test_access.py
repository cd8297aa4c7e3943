"""What each route asks of its caller is what Pulsar asks, as it was recorded."""

from tests.security.access.vectors import EXPLAINED, differences, read
from tests.security.test_access import ours


async def test_every_route_lets_those_in_whom_pulsar_lets_in_and_refuses_in_its_words() -> None:
    assert differences(await ours(), read()).keys() == EXPLAINED.keys()

"""What is landed of a load report, and how a long value is shown in an error."""

import pytest

from counterpoise.load.fields import LoadDataError, read_number
from counterpoise.load.measured import broker_row
from counterpoise.load.report import LocalBrokerData


def test_a_brokers_addresses_are_as_it_reports_them() -> None:
    report = LocalBrokerData(web_service_url="http://a:1", pulsar_service_url="pulsar://a:2")
    row = broker_row(report)
    assert (row["web_service_url"], row["pulsar_service_url"]) == ("http://a:1", "pulsar://a:2")
    bare = broker_row(LocalBrokerData(web_service_url=None, pulsar_service_url=None))
    assert (bare["web_service_url"], bare["pulsar_service_url"]) == ("", "")


def test_a_long_value_is_cut_to_sixty_characters() -> None:
    with pytest.raises(LoadDataError) as raised:
        read_number("x" * 100, "field")
    assert str(raised.value).endswith("got '" + "x" * 56 + "...")

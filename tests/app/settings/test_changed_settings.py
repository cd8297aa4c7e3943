"""Which settings differ from Pulsar's defaults, and whom they are for."""

import pytest

from counterpoise.app.settings.accepted import dynamic_settings, set_and_unread, warning, warnings
from counterpoise.app.settings.pulsar import PulsarSetting, pulsar_settings
from counterpoise.app.settings.table import check_settings, of_brokers_alone, table
from counterpoise.names.options import ConfigError
from counterpoise.security.options import ClientOptions


@pytest.mark.parametrize(
    ("default", "given", "changed"),
    [
        ("true", "TRUE", False),
        ("true", " false ", True),
        ("true", "  ", False),
        ("1.0", "1", False),
        ("1.0", "1.5", True),
        ("", "x", True),
        ("a", "1", True),
    ],
)
def test_a_value_is_changed_if_it_means_something_else(
    default: str, given: str, changed: bool
) -> None:
    assert PulsarSetting("x", default, False).is_changed(given) is changed


def test_only_what_differs_from_the_default_is_warned_about() -> None:
    name = "numAcceptorThreads"
    default = pulsar_settings()[name].default
    assert set_and_unread({name: default}) == []
    assert set_and_unread({name: f"{default}1", "zookeeperServers": "a"}) == [name]
    assert warning([]) == ""
    [first, second] = warnings({name: f"{default}1", "acme": "1"}, None)
    assert first == f"accepted, and read by nothing here (docs/UNREAD.md): {name}"
    assert "left alone: acme ('counterpoise doctor FILE'" in second


def test_settings_that_change_while_brokers_run_are_pulsars_and_no_others() -> None:
    names = [each.conf for each in dynamic_settings()]
    assert len(names) == len(set(names))
    assert {name for name, each in pulsar_settings().items() if each.dynamic} <= set(names)
    assert "numAcceptorThreads" not in names
    assert all(each.dynamic for each in dynamic_settings())


def test_a_setting_that_brokers_alone_read_changes_nothing_of_a_balancer() -> None:
    said = of_brokers_alone(["maxMessageSize=5", "maxMessageSize = 6", "minUnloadMessage=1"])
    assert said == [
        "--set maxMessageSize changes nothing here: brokers read it, and the balancer does not"
    ]
    assert of_brokers_alone(["loadBalancerLoadSheddingStrategy=x"]) == []
    assert of_brokers_alone(["brokerClientAuthenticationPlugin=token"], [ClientOptions]) == []


def test_a_setting_that_two_rooms_read_is_known_to_be_of_both() -> None:
    both = [name for name, entry in table().items() if len(entry.rooms) > 1]
    assert "statsUpdateFrequencyInSecs" in both


def test_the_value_of_a_setting_on_the_command_line_is_checked() -> None:
    check_settings({"minUnloadMessage": "5"})
    with pytest.raises(ConfigError, match="minUnloadMessage"):
        check_settings({"minUnloadMessage": "many"})

"""The file that names the clusters of a fleet: what is read of it, and what is refused in words."""

from pathlib import Path

import pytest

from counterpoise.app.errors import UserError
from counterpoise.app.fleet_file import read_fleet
from counterpoise.app.main import main

GOOD = """
[[cluster]]
name = "east"
admin-url = "http://broker-1:8080, http://broker-2:8080/"

[[cluster]]
name = "west"
admin-url = "https://broker:8443"
"""


def test_every_key_is_read(tmp_path: Path) -> None:
    token = tmp_path / "token with a space"
    token.write_text("secret\n")
    file = tmp_path / "fleet.toml"
    file.write_text(
        GOOD
        + 'history = "s3://bucket/h"\nconsole = "https://console/"\n'
        + f'service-url = "pulsar+ssl://broker:6651"\ntoken-file = "{token}"\n'
        + "tls-enable-hostname-verification = true\n"
    )
    east, west = read_fleet(str(file))
    assert (east.name, east.addresses) == ("east", ("http://broker-1:8080", "http://broker-2:8080"))
    assert east.security.headers() == {}
    assert (west.history, west.console) == ("s3://bucket/h", "https://console/")
    assert west.service_url == "pulsar+ssl://broker:6651"
    assert west.security.headers() == {"Authorization": "Bearer secret"}
    assert west.security.context().check_hostname


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no cluster: expected [[cluster]]"),
        ("cluster = 3\n", "names no cluster: expected [[cluster]]"),
        ("[[cluster\n", "is not TOML:"),
        ("[fleet]\n" + GOOD, "fleet is unknown; a fleet is [[cluster]] tables"),
        (GOOD + 'admin_url = "x"\n', "line 9: admin_url is unknown; known are admin-url,"),
        (GOOD + "history = 3\n", "line 9: history expected a text in quotes"),
        (GOOD + 'tls-allow-insecure = "yes"\n', "line 9: tls-allow-insecure expected true or"),
        (GOOD + 'console = "javascript:alert(1)"\n', "line 9: console 'javascript:alert(1)': exp"),
        (GOOD + 'service-url = "http://b"\n', "line 9: service-url 'http://b': expected pulsar"),
        (GOOD + 'token-file = "a"\ntls-cert-file = "b"\n', "line 9: token-file and tls-cert-file:"),
        (GOOD + 'token-file = "/no/such/file"\n', "/no/such/file"),
        (GOOD + 'tls-trust-cert-path = "/no/such/file"\n', "/no/such/file"),
        (GOOD + 'tls-cert-file = "/no/such/file"\n', "tls-key-file"),
        (GOOD + '[[cluster]]\nname = "a"\n', "line 9: admin-url is needed"),
        (GOOD + '[[cluster]]\nadmin-url = "http://b"\n', "line 9: name is needed"),
        (GOOD + '[[cluster]]\nname = "a"\nadmin-url = "b"\n', "line 11: admin-url b: expected"),
        (GOOD + '[[cluster]]\nname = "a\\u0007"\nadmin-url = "http://b"\n', "line 10: name ex"),
        (GOOD + '[[cluster]]\nname = "east"\nadmin-url = "http://b"\n', "'east' is the name of"),
        ('cluster = [{name = "a"}]\n', "cluster 1: admin-url is needed"),
        ("cluster = [1]\n", "cluster 1: name is needed"),
    ],
)
def test_a_mistake_is_a_sentence_with_file_and_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(text)
    with pytest.raises(UserError) as refused:
        read_fleet(str(file))
    assert str(file) in str(refused.value) or "/no/such/file" in str(refused.value)
    assert said in str(refused.value)
    assert main(["status", "--fleet", str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status"], "name one of them: --history URI, or --fleet FILE"),
        (["status", "--history", "h", "--fleet", "f"], "name one of them"),
        (["status", "--fleet", "/no/such/fleet"], "cannot read /no/such/fleet"),
        (["status", "--fleet", "/bin/sh"], "/bin/sh is not a text file in UTF-8"),
        (["console"], "name one of them: --admin-url URL, or --fleet FILE"),
        (["console", "--fleet", "f", "--acts"], "--acts changes nothing with --fleet"),
        (["console", "--fleet", "f", "--set", "a=b"], "changes nothing with --fleet"),
    ],
)
def test_verbs_refuse_what_does_not_go_together(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err

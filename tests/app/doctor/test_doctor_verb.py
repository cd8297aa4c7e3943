"""``counterpoise doctor`` on the command line."""

import json

import pytest

from counterpoise.app.main import main
from counterpoise.app.settings.table import table
from tests.app.doctor.configurations import AVG_PAIR


@pytest.fixture
def conf(tmp_path):
    def write(text):
        path = tmp_path / "broker.conf"
        path.write_text(text)
        return str(path)

    return write


def test_the_exit_status_says_whether_there_are_problems(conf, capsys):
    assert main(["doctor", "--conf", conf(AVG_PAIR)]) == 0
    assert "no problems" in capsys.readouterr().out
    assert main(["doctor", conf("minUnloadMessage=x")]) == 1
    assert "PROBLEM: minUnloadMessage: 'x' is not a whole number" in capsys.readouterr().out


def test_the_command_answers_json(conf, capsys):
    status = main(["doctor", "--conf", conf("acme=1"), "--brokers", "6", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert status == 1
    assert answer["unknown"] == ["acme"]
    assert answer["problems"] == sum(e["severity"] == "problem" for e in answer["findings"])
    assert {"rule", "settings", "why", "change", "issues"} <= answer["findings"][0].keys()


def test_settings_win_over_the_file(conf, capsys):
    path = conf("minUnloadMessage=x")
    main(["doctor", path, "--set", "minUnloadMessage=5"])
    assert "bad-value" not in capsys.readouterr().out


def test_every_setting_is_listed(capsys):
    assert main(["doctor", "--settings"]) == 0
    shown = capsys.readouterr().out
    for name, entry in table().items():
        assert f"{name}\n  {entry.why}\n" in shown
    assert "default 85; percent; a whole number from 0 to 2147483647; dynamic; read by" in shown

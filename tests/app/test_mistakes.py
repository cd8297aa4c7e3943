"""What people mistype, verb by verb: each is told in a sentence what was expected, with status 2.

`test_bad_input` has what is wrong outside: servers, files, names and histories.
"""

import shlex
from pathlib import Path

import pytest

from counterpoise.app.main import main

NOBODY = "--admin-url http://127.0.0.1:1"
BALANCE = f"balance {NOBODY} --history {{at}}"
WATCH = f"watch {NOBODY} --history {{at}}"
TOP = "top --once --admin-url https://127.0.0.1:1"
REPLAYED = "backtest synthetic:diurnal"

MISTAKES = [
    ("doctor", "--conf"),
    ("doctor --set nonsense", "expected NAME=VALUE"),
    ("doctor a.conf --conf b.conf", "b.conf"),
    ("advise", "say whom to ask"),
    ("advise --admin-url localhost:8080", "expected http://host:port"),
    ("advise --admin-url ,", "expected http://host:port"),
    ("advise --history gopher://x", "gopher"),
    (f"advise {NOBODY} --move-seconds -1", "--move-seconds -1"),
    (f"advise {NOBODY} --strategy NoSuchStrategy", "NoSuchStrategy"),
    (f"advise {NOBODY} --placement Nowhere", "Nowhere"),
    (f"{BALANCE} --admin-url localhost:8080", "expected http://host:port"),
    (f"{BALANCE} --strategy NoSuchShedder", "NoSuchShedder"),
    (f"{BALANCE} --placement Anywhere", "LeastUsage"),
    (f"{BALANCE} --set loadBalancerSheddingIntervalMinutes=soon", "SheddingIntervalMinutes"),
    (f"{BALANCE} --set nonsense", "NAME=VALUE"),
    (f"{BALANCE} --history ''", "has no name"),
    (f"{BALANCE} --history s3:bucket/h", "expected s3://"),
    (f"{BALANCE} --max-moves-a-round 3", "--max-moves-a-round changes nothing without --execute"),
    (f"{BALANCE} --leave-alone a/b", "--leave-alone changes nothing without --execute"),
    (f"{BALANCE} --partial", "--partial changes nothing without --plan"),
    (f"{BALANCE} --valid-for 5m", "--valid-for changes nothing without --plan"),
    (f"{BALANCE} --plan p.json --once", "--once changes nothing of a --plan"),
    (f"{BALANCE} --plan p.json --strategy AvgShedder", "--strategy changes nothing of a"),
    ("console --admin-url ftp://x", "expected http://host:port"),
    ("console --admin-url http://x --token-file a --auth-params token:b", "the same"),
    ("console --admin-url http://x --every 0", "must be more than 0"),
    ("console --admin-url http://x --set nonsense", "expected NAME=VALUE"),
    (f"{WATCH} --admin-url x", "expected http://host:port"),
    (f"{WATCH} --metrics zero", "expected PORT or HOST:PORT"),
    (f"{WATCH} --metrics 203.0.113.1:80", "--metrics 203.0.113.1:80: "),
    (f"{WATCH} --history gopher://x", "gopher"),
    (f"{TOP} --interval 0", "--interval must be more than 0"),
    (f"{TOP} --auth-plugin x.Y", "--auth-plugin: x.Y is not supported"),
    (f"{TOP} --auth-plugin token --auth-params file:///nowhere/t", "/nowhere/t"),
    (f"{TOP} --auth-plugin token", "--auth-params: expected token:"),
    (f"{TOP} --auth-plugin basic --auth-params hush", "--auth-params: expected"),
    (f"{TOP} --auth-plugin tls --auth-params hush", "--auth-params: expected"),
    ("backtest synthetic:weird", "there are diurnal"),
    (f"{REPLAYED},brokers=x", "has no number"),
    (f"{REPLAYED},cats=3", "'cats' is none of"),
    (f"{REPLAYED},brokers=0", "must be more than 0"),
    (f"{REPLAYED} --spans 0", "--spans"),
    (f"{REPLAYED} --from 2026-11-22", "synthetic load has none"),
    ("backtest /no/such/history --from yesterday", "'yesterday' is not a time"),
    (f"{REPLAYED},hours=1e9", "less than 100,000,000"),
    (f"{REPLAYED},hours=nan", "must be more than 0"),
    (f"{REPLAYED},hours=9e7", "5,400,000,000 steps of 60 s"),
    (f"{REPLAYED},hours=0.001", "is 0 steps of 60 s"),
    (f"{REPLAYED},hours=1 --spans 61", "60 steps of 60 s, and 61 to"),
    (f"{REPLAYED} --step nan", "--step must be more than 0"),
    (f"{REPLAYED} --move-seconds -1", "expected seconds, 0 or more"),
    (f"{REPLAYED} --strategies ,", "names none"),
    (f"{REPLAYED} --compare /no/old.conf /no/new.conf", "/no/old.conf"),
    (f"{REPLAYED} --spark-conf x", "expected NAME=VALUE"),
    (f"{REPLAYED} --plot x.txt", "ends with .png or .svg or .pdf"),
    (f"{REPLAYED} --grid numIOThreads=1,2", "read no such setting"),
    (f"{REPLAYED} --grid maxUnloadPercentage=.1,", "expected NAME=V1,V2"),
    (f"{REPLAYED} --grid loadBalancerSheddingEnabled=true,false", "read no such setting"),
]


@pytest.mark.parametrize(("line", "said"), MISTAKES)
def test_a_mistake_is_a_sentence_and_status_two(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(line.format(at=tmp_path))) == 2
    error = capsys.readouterr().err
    *_, sentence = error.splitlines()
    assert sentence.startswith("counterpoise")
    assert said in error
    assert "Traceback" not in error
    assert "hush" not in error, "a secret is repeated"

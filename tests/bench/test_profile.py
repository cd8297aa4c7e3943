"""A flame graph is a picture of our functions, and of nothing of the machine it was drawn on."""

import sys
from pathlib import Path

import pytest
from bench._profile import plain, profile

SPY = Path(sys.executable).with_name("py-spy")


@pytest.mark.skipif(not SPY.exists(), reason="py-spy is not installed")
def test_a_broker_that_takes_messages_is_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "flame.svg"
    profile("publish", picture, seconds=2)
    drawn = picture.read_text(encoding="utf-8")
    assert ">counterpoise: publish</text>" in drawn
    assert "Connection.data_received (counterpoise/broker/connection/connection.py:" in drawn
    assert "<script" not in drawn


def test_a_process_is_named_after_what_it_runs() -> None:
    drawn = (
        '<svg onload="init(evt)"><script>x</script><text id="title" y="2">py-spy /home/me</text>'
        "<title>process 7:&quot;/home/me/python -m pyspark.daemon pyspark.worker&quot; (5 samples)"
        "</title><text>process 7:&quot;/ho..</text><!-- by whom -->"
        "<title>process 8:&quot;bash /tmp/x &quot;a b&quot; /me&quot; (1 samples)</title></svg>"
    )
    assert plain(drawn, "a cycle") == (
        '<svg><text id="title" y="2">a cycle</text>'
        "<title>process: pyspark.daemon (5 samples)</title><text>process</text>"
        "<title>process (1 samples)</title></svg>"
    )

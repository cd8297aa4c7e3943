"""When servers that ended are started again: at once, then after pauses that double."""

from counterpoise.app.clusters.supervisor import RestartSchedule


def test_pauses_double_to_a_minute_and_begin_again_after_a_steady_run() -> None:
    now = [100.0]
    schedule = RestartSchedule(lambda: now[0])
    assert schedule.wait_s() is None
    pauses = []
    for _ in range(9):
        pauses.append(schedule.ended("bookie-1"))
        assert schedule.wait_s() == pauses[-1]
        now[0] += pauses[-1]
        assert schedule.take_due() == ["bookie-1"]
        assert schedule.take_due() == []
        schedule.started("bookie-1")
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    now[0] += 60
    assert schedule.ended("bookie-1") == 60, "steady is longer than a minute"
    assert schedule.ended("bookie-1") == 60, "a start that failed is no run at all"
    now[0] += 1000
    assert schedule.wait_s() == 0
    schedule.started("bookie-1")
    now[0] += 61
    assert schedule.ended("bookie-1") == 0


def test_a_server_that_waits_delays_no_other() -> None:
    now = [0.0]
    schedule = RestartSchedule(lambda: now[0])
    for _ in range(3):
        schedule.ended("bookie-1")
        now[0] += 5
        schedule.take_due()
    schedule.ended("bookie-1")
    schedule.ended("zookeeper")
    assert schedule.take_due() == ["zookeeper"]
    assert schedule.wait_s() == 4

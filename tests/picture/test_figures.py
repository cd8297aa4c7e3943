"""The cluster in a line and in a sentence."""

from counterpoise.picture.figures import figures, in_words
from counterpoise.picture.past import Past
from counterpoise.picture.scene import Scene
from counterpoise.picture.throttled import Throttled
from tests.picture.scenes import scene_of

ONE = "public/default/0x00000000_0x80000000"
TWO = "public/default/0x80000000_0xffffffff"


def test_figures() -> None:
    scene = scene_of(
        {"a:1": {ONE: 900.0, TWO: 10.0}, "b:1": {TWO: 10.0}}, silent={"b:1": "refused"}
    )
    told = {each.label: each for each in figures(scene, Past(), [Throttled("a:1", "t", "why")])}
    assert told["Brokers"].value == "2, 1 silent"
    assert told["Brokers"].alarming
    assert told["Bundles"].value == "2"
    assert told["On their way"].value == "1"
    assert told["Limits reached"].value == "1"
    assert told["Largest ÷ mean"].alarming
    assert scene.twice == {TWO: ("a:1", "b:1")}


def test_an_even_cluster_alarms_nobody() -> None:
    even = scene_of({"a:1": {ONE: 5.0}, "b:1": {TWO: 5.0}})
    assert not any(each.alarming for each in figures(even, Past(), []))


def test_the_picture_in_words() -> None:
    assert in_words(Scene.nothing()) == "No broker has told its load yet."
    words = in_words(scene_of({"a:1": {ONE: 900.0}, "b:1": {TWO: 300.0}}))
    assert words.startswith("2 brokers with 2 bundles. The most loaded is a:1 with 900 B/s, 1.5")

"""What is drawn of a picture: all of the load, as many tiles as a person can see, where it is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.picture.charts import FLUID, treemap_options, treemap_series
from counterpoise.picture.cluster_picture import ClusterPicture
from counterpoise.picture.colour import READABLE, contrast, of_load
from counterpoise.picture.treemap import TILES_LEAST, TILES_MOST, Area, TileKind, treemap
from tests.picture.pictures import picture_of

ROUND = "public/default/0x00000000_0x40000000"
OTHER = "public/default/0x40000000_0x80000000"
THIRD = "public/orders/0x00000000_0xffffffff"


def test_the_largest_broker_comes_first_and_its_bundles_lie_within() -> None:
    first, second = treemap(
        picture_of({"a:1": {ROUND: 100.0}, "b:1": {OTHER: 700.0, THIRD: 200.0}})
    )
    assert (first.key, second.key) == ("b:1", "a:1")
    assert [tile.key for tile in first.tiles] == [OTHER, THIRD]
    assert [tile.value for tile in first.tiles] == [700.0, 200.0]
    assert first.description == "broker b:1: 900 B/s, 1.8× the mean, 2 bundles"  # noqa: RUF001
    assert first.tiles[0].label == "default 0x40000000\n700 B/s"
    assert first.tiles[0].description == f"{OTHER}: 700 B/s, 7.0 msg/s, 1 topic"


def test_a_bundle_that_moves_is_drawn_at_its_new_owner() -> None:
    before = treemap(picture_of({"a:1": {ROUND: 100.0, OTHER: 50.0}, "b:1": {}}))
    after = treemap(picture_of({"a:1": {OTHER: 50.0}, "b:1": {ROUND: 100.0}}))
    assert [[tile.key for tile in each.tiles] for each in before] == [[ROUND, OTHER], []]
    assert [[tile.key for tile in each.tiles] for each in after] == [[ROUND], [OTHER]]


def test_what_is_idle_has_an_area_all_the_same() -> None:
    idle = treemap(picture_of({"a:1": {ROUND: 0.0}, "b:1": {OTHER: 0.0}}))
    assert all(tile.value > 0 for broker in idle for tile in broker.tiles)
    busy = treemap(picture_of({"a:1": {ROUND: 0.0, OTHER: 1000.0}}))
    [large, small] = busy[0].tiles
    assert 0 < small.value < large.value / 50


def test_nothing_is_drawn_of_nothing() -> None:
    assert treemap(ClusterPicture.nothing()) == ()


def test_a_large_cluster_is_aggregated_and_nothing_of_its_load_is_lost() -> None:
    loads = np.random.default_rng(1).pareto(1.2, 10_000) * 1e5
    carried = {
        f"broker-{b}:8080": {
            f"public/ns{i % 20}/0x{i:08x}_0x{i + 1:08x}": float(loads[i])
            for i in range(b, 10_000, 100)
        }
        for b in range(100)
    }
    picture = picture_of(carried)
    tiles = treemap(picture)
    drawn = [tile for broker in tiles for tile in broker.tiles]
    assert len(tiles) == 100
    assert len(drawn) <= TILES_MOST + 100
    floor = 100 * 0.004 * loads.sum() / 100
    assert sum(tile.value for tile in drawn) == pytest.approx(loads.sum(), rel=0.1, abs=floor)
    rest = [tile for tile in drawn if tile.what is TileKind.REST]
    assert len(rest) == 100
    assert rest[0].label.startswith(f"{100 - TILES_MOST // 100} more\n")


def test_a_rest_of_one_is_drawn_as_itself() -> None:
    brokers = TILES_MOST
    carried = {
        f"b{i}:1": {f"t/n/0x{i:04x}000{j}_0x{i:04x}000{j + 1}": 5.0 for j in range(TILES_LEAST + 1)}
        for i in range(brokers)
    }
    first = treemap(picture_of(carried))[0]
    assert [tile.what for tile in first.tiles] == [TileKind.BUNDLE] * (TILES_LEAST + 1)


def test_one_broker_alone_is_drawn_in_detail() -> None:
    carried = {
        f"b{i}:1": {f"t/n/0x{i:02x}0000{j:02x}_0xffffffff": 5.0 for j in range(200)}
        for i in range(20)
    }
    picture = picture_of(carried)
    assert len(treemap(picture)[0].tiles) == TILES_MOST // 20 + 1
    [only] = treemap(picture, only="b3:1")
    assert only.key == "b3:1"
    assert len(only.tiles) == 200


@pytest.mark.parametrize(("brokers", "headline"), [(3, "1.0x b0:1  5.0 B/s"), (80, "1.0x")])
def test_the_more_brokers_share_the_width_the_less_is_said_above_each(
    brokers: int, headline: str
) -> None:
    picture = picture_of({f"b{i}:1": {f"t/n/0x{i:08x}_0x{i + 1:08x}": 5.0} for i in range(brokers)})
    first = next(each for each in treemap(picture) if each.key == "b0:1")
    assert first.label.replace("\N{MULTIPLICATION SIGN}", "x") == headline
    assert first.description.startswith("broker b0:1: ")


def test_a_figure_that_would_be_cut_off_is_not_on_its_tile() -> None:
    parts = {"t/n/0x10_0x20": 97.0, "t/n/0x20_0x30": 2.0, "t/n/0x30_0x40": 0.5}
    [broker] = treemap_options(treemap(picture_of({"a:1": parts})))["series"][0]["data"]
    found = [(each["name"], each["label"].get("show", True)) for each in broker["children"]]
    assert found == [("n 0x10\n97 B/s", True), ("n 0x20", True), ("n 0x30", False)]
    assert "0.5 B/s" in broker["children"][2]["tooltip"]["formatter"]


def test_the_area_is_what_was_chosen() -> None:
    picture = picture_of({"a:1": {ROUND: 300.0, OTHER: 100.0}})
    assert [tile.value for tile in treemap(picture, Area.MESSAGES)[0].tiles] == [3.0, 1.0]
    assert [tile.value for tile in treemap(picture, Area.TOPICS)[0].tiles] == [1.0, 1.0]


def test_a_broker_that_does_not_answer_is_grey_and_says_so() -> None:
    picture = picture_of({"a:1": {ROUND: 9.0}, "b:1": {}}, silent={"a:1": "no answer within 4 s"})
    silent = treemap(picture)[0]
    assert "does not answer" in silent.description
    assert silent.paint == of_load(None)


@given(st.one_of(st.none(), st.floats(0, 10)), st.floats(0, 1))
def test_text_is_readable_on_every_colour(ratio: float | None, prominence: float) -> None:
    paint = of_load(ratio, prominence)
    assert contrast(paint.fill, paint.text) >= READABLE


def test_the_contrast_is_the_known_one() -> None:
    # https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio; 4.54 is the well-known one of #767676.
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


def keys_of(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys_of(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(keys_of(each) for each in value))
    return set()


def test_a_name_from_the_cluster_is_never_a_key_of_the_options() -> None:
    """The page's library runs what stands behind a key that begins with a colon."""
    names = (":formatter", "<img src=x onerror=alert(1)>", "{b|{c}}", "__proto__")
    plain = treemap_options(treemap(picture_of({"a:1": {ROUND: 1.0}, "b:1": {OTHER: 2.0}})))
    odd = treemap_options(
        treemap(
            picture_of({f"{each}:1": {f"{each}/n/0x00_0x{i}": 1.0} for i, each in enumerate(names)})
        )
    )
    assert keys_of(odd) == keys_of(plain)
    assert "{" not in odd["series"][0]["data"][2]["tooltip"]["formatter"]


@pytest.mark.parametrize(("bundles", "glides"), [(FLUID - 1, True), (FLUID, False)])
def test_what_has_many_tiles_does_not_glide(bundles: int, *, glides: bool) -> None:
    """All that is drawn counts, brokers too; and the series carries the flag."""
    (tile,) = treemap(picture_of({"a:1": {ROUND: 1.0}}))
    many = (replace(tile, tiles=tile.tiles * bundles),)
    assert treemap_series(many)["animation"] is glides
    assert treemap_options(many)["series"][0]["animation"] is glides


@pytest.mark.parametrize("area", list(Area))
def test_an_empty_broker_has_an_area_that_can_be_seen_and_clicked(area: Area) -> None:
    picture = picture_of({"a:1": {ROUND: 900.0}, "b:1": {OTHER: 900.0}, "c:1": {}})
    tiles = treemap(picture, area)
    whole = sum(tile.value for tile in tiles)
    (empty,) = [tile for tile in tiles if tile.key == "c:1"]
    assert empty.value >= 0.02 * whole

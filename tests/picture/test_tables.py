"""The picture in rows: everything that the picture shows, searchable, a page at a time."""

from dataclasses import replace

import numpy as np

from counterpoise.load.usage import RESOURCES
from counterpoise.picture.cluster_picture import ClusterPicture
from counterpoise.picture.tables import broker_lines, broker_page, bundle_page
from tests.picture.pictures import picture_of

BUNDLES = [f"public/default/0x{i:08x}_0x{i + 1:08x}" for i in range(50)]
PICTURE = picture_of(
    {"a:1": dict.fromkeys(BUNDLES[:10], 10.0), "b:1": dict.fromkeys(BUNDLES[10:], 20.0), "c:1": {}},
    silent={"c:1": "refused", "d:1": "no answer within 4 s"},
)


def test_every_broker_has_a_row_the_silent_and_unknown_too() -> None:
    rows = broker_lines(PICTURE)
    assert [(row.broker, row.bundles, row.bytes_per_s) for row in rows] == [
        ("b:1", 40, 800.0),
        ("a:1", 10, 100.0),
        ("c:1", 0, 0.0),
        ("d:1", 0, 0.0),
    ]
    assert [row.silent for row in rows] == ["", "", "refused", "no answer within 4 s"]
    assert (rows[0].resource, round(rows[0].usage)) == ("cpu", 40)


def test_brokers_are_found_by_address_and_when_they_are_silent() -> None:
    assert [row.broker for row in broker_page(PICTURE, "A:").rows] == ["a:1"]
    assert [row.broker for row in broker_page(PICTURE, "silent").rows] == ["c:1", "d:1"]
    second = broker_page(PICTURE, page=7, rows=3)
    assert ([row.broker for row in second.rows], second.count, second.page) == (["d:1"], 4, 1)


def test_bundles_come_in_pages_the_largest_first() -> None:
    page = bundle_page(PICTURE, rows=40)
    assert page.count == 50
    assert {row.owner for row in page.rows} == {"b:1"}
    assert [row.bundle for row in bundle_page(PICTURE, page=1, rows=40).rows] == BUNDLES[:10]


def test_a_page_beyond_the_last_is_the_last() -> None:
    assert bundle_page(PICTURE, page=7, rows=40).page == 1
    assert bundle_page(PICTURE, page=-1).page == 0
    assert bundle_page(ClusterPicture.nothing(), page=3) == bundle_page(ClusterPicture.nothing())


def test_bundles_are_found_by_name_and_by_owner() -> None:
    assert [row.bundle for row in bundle_page(PICTURE, "0X0000000A_").rows] == [BUNDLES[10]]
    assert bundle_page(PICTURE, "default a:1").count == 10
    assert bundle_page(PICTURE, "nothing of the kind").rows == ()


def test_a_page_that_is_just_full_is_the_last() -> None:
    assert bundle_page(PICTURE, page=9, rows=25).page == 1
    assert broker_page(PICTURE, page=9, rows=2).page == 1


def test_a_broker_shows_its_most_used_resource_and_stands_by_its_bytes() -> None:
    carried = {"a:1": {BUNDLES[0]: 100.0}, "b:1": {BUNDLES[1]: 200.0}}
    picture = picture_of(carried)
    columns = picture.view.broker
    usage = np.array([[10, 20, 30, 80, 50], [10, 20, 90, 80, 50]], np.float32)
    view = replace(picture.view, broker=replace(columns, usage=usage))
    rows = broker_lines(ClusterPicture(1_000, view))
    assert [(row.broker, row.usage) for row in rows] == [("b:1", 90.0), ("a:1", 80.0)]
    assert [row.resource for row in rows] == [RESOURCES[2], RESOURCES[3]]

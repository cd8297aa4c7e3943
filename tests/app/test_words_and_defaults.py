"""What an operator reads and what holds by default, the same for every verb."""

import json
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from counterpoise.app.main import full_parser, main
from counterpoise.app.verbs import advise, balance, console
from counterpoise.app.verbs.status import sentences
from counterpoise.app.verbs.top import limits_of, screen
from counterpoise.decide.plan import Rejection
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.pipeline.tables.control import Control, Wish
from counterpoise.pipeline.tables.status import BalancerStatus, LastPoll

SHEDDER = "loadBalancerLoadSheddingStrategy"
UNIFORM = "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder"
Answers = dict[str, Callable[[web.Request], web.Response]]


def server(answers: Answers) -> TestServer:
    """A broker's admin API that knows these paths, and 404 in Apache's HTML for all others."""

    async def answer(request: web.Request) -> web.Response:
        for path, made in answers.items():
            if request.path.endswith(path):
                return made(request)
        return web.Response(status=404, text="<html><h2>HTTP ERROR 404 Not Found</h2></html>")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    return TestServer(app)


@pytest.mark.parametrize("verb", [advise, balance], ids=["advise", "balance"])
@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ([], "Counterpoise"),
        (["--strategy", "cluster"], "UniformLoadShedder"),
        (["--set", f"{SHEDDER}=OverloadShedder"], "OverloadShedder"),
        (["--strategy", "AvgShedder"], "AvgShedder"),
    ],
)
async def test_advise_and_balance_decide_by_counterpoise_unless_another_strategy_is_named(
    verb: object, given: list[str], strategy: str
) -> None:
    answers: Answers = {
        "configuration/runtime": lambda _: web.json_response({SHEDDER: UNIFORM}),
        "configuration/values": lambda _: web.json_response({}),
    }
    async with server(answers) as broker:
        url = str(broker.make_url("")).rstrip("/")
        name = "advise" if verb is advise else "balance"
        words = [name, "--admin-url", url, "--history", "h", *given]
        args = full_parser().parse_args(words)
        made, _, note = await verb.strategy_of(args, (url,))  # type: ignore[attr-defined]
    assert made.shedder.name == strategy
    assert ("--strategy cluster" in note and "UniformLoadShedder" in note) == (given == [])


@pytest.mark.parametrize(
    ("manager", "named", "followed"),
    [
        (EXTENSIBLE, UNIFORM, "TransferShedder"),
        (EXTENSIBLE, None, "TransferShedder"),
        (MODULAR, UNIFORM, "UniformLoadShedder"),
    ],
)
async def test_of_an_extensible_cluster_the_strategy_is_followed_that_it_starts(
    manager: str, named: str | None, followed: str
) -> None:
    own = {"loadManagerClassName": manager, **({} if named is None else {SHEDDER: named})}
    answers: Answers = {
        "configuration/runtime": lambda _: web.json_response(own),
        "configuration/values": lambda _: web.json_response({}),
    }
    async with server(answers) as broker:
        url = str(broker.make_url("")).rstrip("/")
        for given, strategy in ([], followed), (["--set", f"{SHEDDER}=AvgShedder"], "AvgShedder"):
            words = ["balance", "--admin-url", url, "--history", "h", *given]
            args = full_parser().parse_args([*words, "--strategy", "cluster"])
            assert (await balance.strategy_of(args, (url,)))[0].shedder.name == strategy
    assert console.strategy_of(own)[0].shedder.name == followed


async def test_settings_that_a_cluster_does_not_return_are_named_with_their_substitute() -> None:
    async with server({}) as broker:
        url = str(broker.make_url("")).rstrip("/")
        args = full_parser().parse_args(["balance", "--admin-url", url, "--history", "h"])
        made, _, note = await balance.strategy_of(args, (url,))
    assert made.shedder.name == "Counterpoise"
    assert "Pulsar's defaults" in note


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("minUnloadMessage=abc", "'abc' is not"),
        ("loadBalancerBrokerOverloadedThresholdPercentage=-3", "-3 is not"),
        ("loadBalancerSheddingEnabled=perhaps", "'perhaps' is not"),
    ],
)
@pytest.mark.parametrize("verb", [["decide", "shed"], ["backtest", "synthetic:diurnal"]])
def test_a_value_that_is_no_good_is_refused_whatever_reads_it(
    verb: list[str], text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb, "--set", text]) == 2
    assert f"{text.partition('=')[0]}: {problem}" in capsys.readouterr().err


async def test_top_names_brokers_that_do_not_list_their_limits_and_claims_nothing_of_them() -> None:
    names: list[str] = []
    answers: Answers = {"/admin/v2/brokers": lambda _: web.json_response(names)}
    async with server(answers) as broker, aiohttp.ClientSession():
        url = str(broker.make_url("")).rstrip("/")
        names.append(url.removeprefix("http://"))
        found, complaints, answered = await limits_of(["http://127.0.0.1:1", url])
    (complaint,) = complaints
    assert names[0] in complaint
    assert "html" not in complaint.lower()
    assert "Apache" in complaint
    assert not any("no client waits" in line for line in screen(found, {}, 1.0, answered=answered))


def test_top_fails_when_no_broker_lists_its_limits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def nothing(*_: object) -> tuple[list[object], list[str], int]:
        return [], ["b:1 does not list its limits"], 0

    monkeypatch.setattr("counterpoise.app.verbs.top.limits_of", nothing)
    assert main(["top", "--admin-url", "http://b:1", "--once"]) == 1
    assert "b:1 does not list its limits" in capsys.readouterr().out


@pytest.mark.parametrize(("since_ms", "shown"), [(1_000, False), (600_000, True), (599_000, True)])
def test_a_stop_is_shown_until_a_later_balancer_looks(since_ms: int, shown: bool) -> None:
    control = Control(Wish.STOP, since_ms, "a release")
    poll = LastPoll(600_000, 3, {}, "")
    lines = sentences(BalancerStatus("h", 700_000, control, poll, None))
    assert any("a release" in line for line in lines) is shown


def test_two_figures_that_differ_are_never_written_alike() -> None:
    text = "{subject} averages {value:.1%}, below {limit:.1%}"
    said = Rejection("b:1", "low", 0.99796, 0.99841, "", text).sentence
    assert said == "b:1 averages 99.80%, below 99.84%"
    assert Rejection("b:1", "low", 0.5, 0.5, "", text).sentence == "b:1 averages 50.0%, below 50.0%"


def test_a_pages_commands_run_at_default_intervals() -> None:
    page = Path(__file__).parents[2] / "docs" / "operations" / "production-balancer.md"
    blocks = page.read_text(encoding="utf-8").split("```console")[1:]
    commands = [block.partition("```")[0] for block in blocks]
    assert [
        each for each in commands if "--interval 1s" in each or "--decide-every 2s" in each
    ] == []


def test_json_of_the_status_says_what_the_sentence_says() -> None:
    control = Control(Wish.STOP, 1_000, "a release")
    poll = LastPoll(600_000, 3, {}, "")
    found = BalancerStatus("h", 700_000, control, poll, None).to_json()
    assert json.loads(json.dumps(found))["control"]["inForce"] is False

"""Lists on the page that change in place: decisions, running actions, throttled producers."""

from collections.abc import Sequence
from datetime import UTC, datetime

from nicegui import ui

from counterpoise.console.actions import ActionState, Activity
from counterpoise.console.elements import Grid, Lines, Row, Text, attributes, button, section
from counterpoise.console.page_session import PageSession, Sources
from counterpoise.picture.round_summary import RoundSummary
from counterpoise.picture.treemap import TileKind

SHEDS = "The cluster sheds load by itself, too (loadBalancerSheddingEnabled)."
SHOWN = 30
"""How many rounds, actions or changes are shown; older ones are not."""


def clock(at_ms: int) -> str:
    """A time (ms since 1970) as its time of day in UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"


def moment(at_ms: int, now_ms: int) -> str:
    """A time (ms since 1970) as text in UTC, with the date unless it is today."""
    at, now = (datetime.fromtimestamp(each / 1000, UTC) for each in (at_ms, now_ms))
    return f"{at:%H:%M:%S}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M}"


def scrolled(label: str) -> ui.element:
    """Make a list of cards that scrolls, also by keyboard."""
    return attributes(
        ui.element("ol").classes("rounds"), tabindex="0", role="list", aria_label=label
    )


class RoundList:
    """A list of rounds, latest first; each unfolds into its moves and reasons."""

    def __init__(self, session: PageSession, label: str, empty: str) -> None:
        self._session = session
        self._cards: dict[int, tuple[RoundSummary, ui.element]] = {}
        self._holder = scrolled(label)
        self._empty = Text("p", empty, "quiet")

    def show(self, summaries: Sequence[RoundSummary]) -> None:
        """Show these rounds, passed oldest first."""
        latest = summaries[-SHOWN:]
        self._empty.set_visibility(not latest)
        kept = {each.at_ms for each in latest}
        for at_ms in [at for at in self._cards if at not in kept]:
            self._cards.pop(at_ms)[1].delete()
        for each in latest:
            known = self._cards.get(each.at_ms)
            if known is not None and known[0] == each:
                continue
            if known is None:
                with self._holder:
                    card = ui.element("li").classes("round")
                card.move(self._holder, target_index=0)
            else:
                card = known[1]
                card.clear()
            with card:
                self._draw(each)
            self._cards[each.at_ms] = (each, card)

    def _draw(self, each: RoundSummary) -> None:
        span = f"{clock(each.at_ms)} UTC"
        if each.rounds > 1:
            span = f"{clock(each.at_ms)} to {clock(each.until_ms)} UTC, {each.rounds} rounds"
        with ui.element("p").classes("headline"):
            Text("strong", each.sentence)
            Text("span", f"{span}, {each.strategy}", "quiet")
        with ui.element("ul").classes("lines"):
            for move in each.moves:
                with ui.element("li").classes("moved"):
                    pick = Text("button", move.subject, "pick")
                    attributes(pick, type="button")
                    pick.on("click", lambda _, key=move.subject: self._bundle(key))
                    Text("span", f" {move.sentence}")
                    if move.outcome:
                        Text("span", f" {move.outcome}", "outcome")
            for effect in each.effects:
                Text("li", effect.sentence, "effect")
        if each.stays:
            with ui.element("details") as folded:
                if not each.moves:
                    attributes(folded, open="")
                more = f" (and {each.more:,} more)" if each.more else ""
                Text("summary", f"{len(each.stays)} not done, and why{more}")
                with ui.element("ul").classes("lines"):
                    for stay in each.stays:
                        Text("li", stay.whole)

    def _bundle(self, key: str) -> None:
        self._session.choose(TileKind.BUNDLE, key)


def rounds_of(sources: Sources) -> tuple[RoundSummary, ...]:
    """Return the rounds of a balancer in another process and of the cluster's own leader.

    They are in the order of time.
    """
    both = (*sources.rounds.summaries, *sources.watch.shed)
    return tuple(sorted(both, key=lambda made: made.at_ms))


class Decisions:
    """The section with the balancer's rounds, and what the cluster's strategy would do."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        with section("Decisions"), ui.element("div").classes("columns"):
            with ui.element("div"):
                Text("h3", "What was decided")
                self._state = Text("p", "", "quiet")
                if session.sources.rounds.accepts_control:
                    with ui.element("div").classes("bar controls"):
                        button("Pause", lambda: self._say("pause"))
                        button("Resume", lambda: self._say("go"))
                        button("Stop the balancer", lambda: self._say("stop"), "danger")
                self._rounds = RoundList(session, "Rounds of the balancer", "No round so far.")
            with ui.element("div"):
                Text("h3", "What the cluster's strategy would do now")
                self._advisor = Text("p", "", "quiet")
                self._advice = RoundList(
                    session, "Rounds of advice", "The first advice comes with the next look."
                )

    def show(self) -> None:
        """Show the latest decisions."""
        sources = self._session.sources
        self._state.text = sources.rounds.state
        self._advisor.text = " ".join(
            each for each in (sources.watch.advisor, SHEDS if sources.watch.sheds else "") if each
        )
        self._rounds.show(rounds_of(sources))
        self._advice.show(sources.watch.advice)

    async def _say(self, wish: str) -> None:
        who = self._session.operator.name
        sentence = await self._session.sources.rounds.say(wish, f"by {who}, at the console")
        self._session.announce(sentence)


class Activities:
    """The section with this console's actions, bundles on the move, and changes of owner."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        self._version = -1
        self._lines: dict[int, tuple[Text, Lines, ui.button]] = {}
        with section("Moves"), ui.element("div").classes("columns"):
            with ui.element("div"):
                Text("h3", "Asked for here")
                self._holder = scrolled("Actions, the latest first")
                self._none = Text("p", "Nothing has been asked for yet.", "quiet")
            with ui.element("div"):
                Text("h3", "On their way")
                self._away = Lines("Every bundle has an owner, and only one.")
                Text("h3", "Seen to happen")
                self._changes = Grid(
                    "Changes of owners, the latest first",
                    ("Bundle", "What happened.", "When, UTC>"),
                    choose=lambda key: session.choose(TileKind.BUNDLE, key),
                    empty="No bundle has changed hands since the console was started.",
                )

    def show(self) -> None:
        """Show the actions, running and ended, and the latest changes."""
        watch = self._session.sources.watch
        away = [
            f"{bundle}: no broker reports it since {clock(since)}; {source} had it"
            for bundle, (since, source) in sorted(watch.past.away.items())
        ]
        twice = [
            f"{bundle}: {' and '.join(brokers)} report it, it changes hands"
            for bundle, brokers in sorted(watch.picture.twice.items())
        ]
        self._away.show((twice + away)[:SHOWN])
        self._changes.show(
            [
                Row(each.bundle, (each.bundle, each.sentence, clock(each.at_ms)))
                for each in reversed(watch.past.changes[-SHOWN:])
            ]
        )
        actions = self._session.sources.actions
        if actions.version != self._version:
            self._version = actions.version
            self._show_actions(actions.activities[:SHOWN])

    def _show_actions(self, activities: Sequence[Activity]) -> None:
        self._none.set_visibility(not activities)
        for each in reversed(activities):
            if each.number not in self._lines:
                self._add(each)
            headline, log, stop = self._lines[each.number]
            headline.text = f"{each.title}: {each.state.value}"
            log.show(each.log[-SHOWN:])
            stop.set_visibility(each.state is ActionState.RUNNING)

    def _add(self, activity: Activity) -> None:
        with self._holder:
            card = ui.element("li").classes("round")
        card.move(self._holder, target_index=0)
        with card:
            with ui.element("p").classes("headline"):
                headline = Text("strong")
                Text("span", f"{clock(activity.started_ms)} UTC, by {activity.who}", "quiet")
            log = Lines("")
            stop = button("Stop", lambda: self._session.sources.actions.stop(activity), "danger")
            attributes(stop, aria_label=f"Stop: {activity.title}")
        self._lines[activity.number] = (headline, log, stop)


class ReachedLimits:
    """The section with the publish rate limits that throttle producers."""

    def __init__(self, session: PageSession) -> None:
        self._session = session
        with section("Throttling"):
            self._grid = Grid(
                "Limits at which producers wait",
                ("Limited", "Broker", "Why.", "Waiting."),
                empty="No producer waits at a publish limit.",
            )

    def show(self) -> None:
        """Show the limits that throttle producers now."""
        self._grid.show(
            [
                Row(
                    each.subject, (each.subject, each.broker, each.why, "; ".join(each.waiting[:5]))
                )
                for each in self._session.sources.watch.throttled[:100]
            ]
        )

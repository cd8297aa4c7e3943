"""Where one bundle of a round goes: to nobody who may not have it, by whatever sends it there."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from counterpoise.decide.balancing.scene import HAS_IT, Scene
from counterpoise.decide.filters.anti_affinity import may_unload
from counterpoise.decide.placement.only import Only
from counterpoise.decide.placement.selection import Chooser, select_modular
from counterpoise.decide.placement.strategy import Placement
from counterpoise.decide.plan import Decision, Rejection
from counterpoise.load.view import ClusterView, bundle_namespace

ASKED = "the strategy chose it"
SILENT = "does not answer"
LEFT_LATELY = "gave it away lately (--thrash-span)"


def destination_of(
    decision: Decision,
    chooser: Chooser[Any],
    memory: Any,
    answering: Collection[str],
    left_lately: Collection[str],
    scene: Scene | None,
) -> Placement[Any]:
    """Any broker but its own that answers and, in a scene, may have it; the one asked for, if any.

    Pulsar's leader lets the bundle's own broker compete and then skips the bundle if it wins; as
    the fullest broker is soon the one with the fewest bundles, nothing would move any more.
    """
    bundle, source, view = decision.bundle, decision.source, chooser.view
    wanted = decision.destination
    if scene is not None:
        barred = {broker: SILENT for broker in scene.facts if broker not in answering}
        barred |= dict.fromkeys(left_lately, LEFT_LATELY)
        return _in_scene(decision, chooser, memory, {**barred, source: HAS_IT}, scene)
    if wanted is not None:
        return Placement(wanted, (wanted,), "asked", ASKED, memory)
    others = [
        each for each in view.brokers
        if each in answering and each not in left_lately and each != source
    ]  # fmt: skip
    return chooser.strategy.place(bundle, others, view, memory, chooser.options, chooser.rng)


def _in_scene(
    decision: Decision, chooser: Chooser[Any], memory: Any, barred: dict[str, str], scene: Scene
) -> Placement[Any]:
    bundle, source, wanted = decision.bundle, decision.source, decision.destination
    namespace = bundle_namespace(bundle)
    served = scene.served(namespace)
    why = may_unload(bundle, source, list(scene.facts), served)
    if why is not None:
        return Placement(None, (), why.rule, why.sentence, memory, (why,))
    if wanted is not None:
        chooser = replace(chooser, strategy=Only(wanted, ASKED))
    around = scene.around(namespace, barred=barred)
    filters = scene.filters if wanted is None else replace(scene.filters, distribute_evenly=False)
    chosen = select_modular(bundle, around, chooser, memory, filters)
    if served and served.get(chosen.broker or "", 0) >= served.get(source, 0) > 0:
        closer = f"{chosen.broker} serves its anti-affinity group as much"
        return chosen.placement._replace(broker=None, rejections=(_nowhere(bundle, closer),))
    if chosen.broker is not None or chosen.placement.rejections:
        return chosen.placement
    dropped = [each for outcome in chosen.outcomes for each in outcome.dropped]
    about = [each for each in dropped if each.subject == wanted] or [
        each for each in dropped if each.subject != source
    ]
    reasons = "; ".join(dict.fromkeys(each.sentence for each in about)) or chosen.placement.reason
    told = _nowhere(bundle, reasons) if wanted is None else _not_there(bundle, wanted, reasons)
    return chosen.placement._replace(rejections=(told,))


def scene_after(scene: Scene, view: ClusterView, decision: Decision) -> Scene:
    """The scene once a decision, which has its destination, was carried out."""
    row = view.bundle_index(decision.bundle)
    topics = 0 if row is None else int(view.bundle.topics[row])
    return scene.after(decision.bundle, decision.source, decision.destination or "", topics)


def _nowhere(bundle: str, why: str) -> Rejection:
    template = "{subject} stays: no other broker may have it ({why})"
    return Rejection(bundle, "nowhere-to-go", None, None, "", template, {"why": why})


def _not_there(bundle: str, wanted: str, why: str) -> Rejection:
    template = "{subject} stays: {wanted}, which the strategy chose, may not have it ({why})"
    figures = {"wanted": wanted, "why": why}
    return Rejection(bundle, "not-allowed", None, None, "", template, figures)

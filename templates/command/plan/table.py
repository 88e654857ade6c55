"""A plan as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import MemoryPlan

GIB = 2**30


def as_text(plan: MemoryPlan) -> str:
    """Return a table of what is held in each phase, what is most, and what to change where that does not fit."""
    rows = [(name, line) for name, line in plan.lines.items()]
    rows.append(("all", {phase: plan.total(phase) for phase in plan.phases}))
    if plan.resting:
        resting = {phase: sum(line.get(phase, 0) for line in plan.resting.values()) for phase in plan.phases}
        rows.append(("besides, in CPU memory", resting))
    width = max(len(name) for name, _ in rows)
    heads = ["update" if phase == "update_actor" else phase for phase in plan.phases]
    of = "the process" if plan.processes == 1 else f"each of {plan.processes} processes"
    text = [f"GiB of {of}, on {plan.device}, by phase:", ""]
    text.append(" " * width + "".join(f"{head:>14}" for head in heads))
    for name, line in rows:
        cells = (line.get(phase, 0) / GIB for phase in plan.phases)
        text.append(f"{name:{width}}" + "".join(f"{size:14.2f}" if size else " " * 13 + "-" for size in cells))
    text += ["", verdict(plan), *(f"not counted: {note}" for note in plan.notes)]
    return "\n".join(text)


def verdict(plan: MemoryPlan) -> str:
    """Say whether a plan fits, and what to change where it does not."""
    size, room = plan.total(plan.peak) / GIB, plan.capacity / GIB
    text = f"peak: {size:.2f} GiB in {plan.peak}; there are {room:.2f} GiB: "
    if plan.fits:
        return f"{text}it fits" + (", if what is not counted fits besides" if plan.notes else "")
    if plan.changed is None:
        return f"{text}it does not fit, and no setting makes it fit: use more processes, or a smaller model"
    better = plan.changed
    settings = " ".join(f"{name}={_shown(value)}" for name, value in plan.changes.items())
    more = "" if better.processes == plan.processes else f", with {better.processes} processes"
    return (
        f"{text}it does not fit\n"
        f"change: {settings or 'nothing'}{more}\n"
        f"then: {better.total(better.peak) / GIB:.2f} GiB in {better.peak}: it fits"
    )


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

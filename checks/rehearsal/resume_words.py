"""What a resume did not bring back, in words."""

from __future__ import annotations

from doctor.checks.rehearsal.parts import some
from doctor.facts.rehearsal_resume import Lost

WORDS = {
    "average": "weights of averages and other modules",
    "reference": "weights of another module, which no step had changed,",
    "loose": "trained tensors of no module",
    "dtype": "tensors",
    "shape": "tensors",
}


def tensors(lost: Lost) -> str:
    """What of the weights, or of what no module has, is lost."""
    names = some(lost.names, lost.count, 1)
    kept = "" if lost.persistent else " with persistent=False"
    if lost.kind == "attribute":
        names, verb = some(lost.names, lost.count, 3), "is" if lost.count == 1 else "are"
        return f"{names}, which the steps change, {verb} as at a fresh start"
    if lost.kind in ("number", "size"):
        maker = f" ({some(lost.names, len(lost.names), 3)}: as at a fresh start)" * bool(lost.names)
        what = "a size of" if lost.kind == "size" else "a number in"
        return (
            f"{what} the loss of step {lost.step} is {lost.after}, as at the first step; without "
            f"the stop it is {lost.before}{maker}"
        )
    if lost.kind == "untied":
        return f"{names}, which was one with {lost.before}, is a weight of its own"
    kind = "buffers" if kept else WORDS.get(lost.kind, lost.kind)
    what = f"{lost.count} of {lost.of} {kind}{kept}"
    if lost.kind in ("dtype", "shape"):
        return f"{what} are {lost.after} and were {lost.before} ({names})"
    if lost.kind == "weights" and lost.after:
        return f"{what} have other names now ({lost.before}, now {lost.after})"
    differ = "differ from what was saved" if lost.persistent else "differ from those at the save"
    state = "are those of a fresh start" if lost.fresh else differ
    return f"{what} {state} ({names})"


def held(lost: Lost) -> str:
    """What an optimizer lost, in words."""
    match lost.kind:
        case "optimizer" if lost.fresh:
            return f"the optimizer's state is empty; {lost.of} parameters had one"
        case "optimizer":
            change = f": {lost.before}, now {lost.after}" if lost.before else ""
            names = some(lost.names, lost.count, 1)
            rank = f" on rank {lost.rank}" if lost.rank else ""
            return (
                f"the optimizer's state of {lost.count} parameters differs{rank} ({names}){change}"
            )
        case "group":
            return f"the optimizer's groups differ: {lost.before}; now {lost.after}"
        case "frozen":
            names = some(lost.names, lost.count, 1)
            return f"{lost.count} of {lost.of} weights that were trained are frozen now ({names})"
        case "replaced":
            names = some(lost.names, lost.count, 1)
            return (
                f"{lost.count} of {lost.of} weights that were trained are in no optimizer now "
                f"({names}), and it holds parameters that no module has: they are trained no more"
            )
        case "scaler":
            return f"scale and growth of the GradScaler were {lost.before}, now {lost.after}"
        case _:
            return f"{some(lost.names, lost.count, 1)} was {lost.before}, now {lost.after}"

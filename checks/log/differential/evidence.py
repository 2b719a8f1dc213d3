"""Evidence in the settings of a training that runs and does not learn as it should."""

from __future__ import annotations

import math
import re

from doctor.checks.log.differential.rates import usual_of
from doctor.checks.log.differential.relations import at_least, changed
from doctor.checks.log.differential.row import Evidence, cited, number
from doctor.checks.log.differential.run import Run


def no_warm_up(run: Run) -> Evidence | None:
    """Every form of a warm-up that is stated is 0, and the rate is not small for the method."""
    stated = [run.setting(name) for name in ("warmup_steps", "warmup_ratio", "warmup_epochs")]
    named = [each for each in stated if each is not None]
    if not named or any((each.number or 0) > 0 for each in named):
        return None
    usual, rate = usual_of(run), run.rate
    if usual is not None and rate is not None and (rate.number or 0) < usual.high / SMALL:
        return None
    shown = next((each for each in named if each.name == "warmup_steps"), named[0])
    return Evidence(cited(shown), (shown,))


SMALL = 3
"""Part of the usual rates below which a start without a warm-up is no reason. Our own number."""


def large_batch_no_warm_up(run: Run) -> Evidence | None:
    """A rate that was raised with a large batch needs a warm-up."""
    missing, batch, rate = no_warm_up(run), run.global_batch, run.rate
    if missing is None or rate is None or (batch or 0) < LARGE or (rate.number or 0) < RAISED:
        return None
    return Evidence(
        f"{missing.sentence} at {cited(rate)} for a batch of {batch:,.0f}",
        (*missing.settings, rate),
    )


LARGE, RAISED = 2048, 0.5
"""Samples of a step, and the rate of SGD, from which on a start at the full rate diverges. Our own
numbers."""


def warm_up_too_long(run: Run) -> Evidence | None:
    if _has_warmed_up(run):
        return None
    for warm, whole in ((run.positive("warmup_steps"), run.steps),
                        (run.positive("warmup_epochs"), run.positive("epochs"))):  # fmt: skip
        length = (whole.number or 0) if whole else 0
        few = max(1, round(0.03 * length))
        if warm and whole and (warm.number or 0) >= HALF_OF * length:
            return Evidence(
                f"{cited(warm)} of {cited(whole)}: the rate never reaches its value, or only at "
                "the end",
                (warm, whole),
                {"few": f", here about {few:,} {whole.name.removeprefix('max_')}"},
            )
    return None


def _has_warmed_up(run: Run) -> bool:
    """Whether the logged rate is at its highest before the last fifth of the log."""
    rate = run.curve("learning_rate")
    values = [float(value) for value in rate.values] if rate else []
    highest = max(values, default=0.0)
    return highest > 0 and values.index(highest) < LAST_FIFTH * len(values)


LAST_FIFTH = 0.8
"""Part of the log; a rate that is highest after it may still rise. Our own number."""
HALF_OF = 0.5
"""Part of the run from which on a warm-up leaves no time to train. Our own number."""


def strong_decay(run: Run) -> Evidence | None:
    """The decay of a step is the product with the rate: Lion takes ten times more at a tenth."""
    found = at_least("weight_decay", DECAY)(run)
    rate = run.rate.number if run.rate else None
    if found is None or (rate and rate * (run.value("weight_decay") or 0) < OF_STEP):
        return None
    return found


DECAY, OF_STEP = 5.0, 1e-3
"""Weight decay, and the part of a weight that a step takes, from which on little is learned. Our
own numbers."""


def rounded_away(run: Run) -> Evidence | None:
    """Weights in bf16 keep eight bits: a step below 2^-9 of a weight changes nothing."""
    weights = run.of_kind("dtype", "bf16", "bfloat16")
    mixed = run.positive("bf16") or run.of_kind("precision", "bf16")
    rate = run.rate
    if weights is None or mixed or rate is None or run.is_lora or run.setting("master_weights"):
        return None
    if (rate.number or 1) > ROUNDED:
        return None
    return Evidence(f"{cited(weights)} holds the weights, and {cited(rate)}", (weights, rate))


ROUNDED = 5e-6
"""Rate up to which most steps of bf16 weights (about 0.02, eight bits) are lost. Our own number."""


def schedule_too_short(run: Run) -> Evidence | None:
    planned, steps = run.positive("schedule_steps"), run.steps
    if (
        planned is None
        or steps is None
        or (planned.number or 0) >= ENDS_EARLY * (steps.number or 0)
    ):
        return None
    return Evidence(
        f"{cited(planned)} is less than {cited(steps)}", (planned, steps), {"steps": steps.text}
    )


ENDS_EARLY = 0.8
"""Part of the run before which a schedule ends too early. Our own number."""


def shorter_than_an_epoch(run: Run) -> Evidence | None:
    """A cosine of as many steps as the run has epochs, whose rate rises again after its end."""
    planned, epochs = run.positive("schedule_steps"), run.positive("epochs")
    if planned is None or epochs is None or planned.number != epochs.number:
        return None
    return Evidence(f"{cited(planned)} and {cited(epochs)}", (planned, epochs))


def should_have_moved(run: Run) -> Evidence | None:
    """A schedule without a constant part is stated, and the rate is one value for a part of the run
    in which it changes by more than the digits that are printed, and for more than an epoch."""
    rate, schedule = run.curve("learning_rate"), run.of_kind("scheduler", *DECAYING)
    values = {float(value) for value in rate.values} if rate else set()
    steps = run.value("max_steps")
    stays = schedule is None or STAYS.search(schedule.text.lower())
    if rate is None or schedule is None or stays or len(values) != 1:
        return None
    (value,) = values
    stated = [each.number or 0 for each in run.all("learning_rate")]
    if stated and not any(math.isclose(each, value, rel_tol=0.01) for each in stated):
        return None  # the rest of a schedule that has moved
    seen, epochs = rate.steps[-1] - rate.steps[0], run.value("epochs")
    is_level = run.value("min_rate") == value
    if is_level or not steps or seen < MOVED * steps or (epochs and seen <= steps / epochs):
        return None
    return Evidence(f"{cited(schedule)} over {number(steps)} steps", (schedule,))


DECAYING = ("cosine", "linear", "poly", "one_?cycle")
"""Schedules that move all the time, at each step or each epoch."""
STAYS = re.compile(r"constant|warm|(?:linear|polynomial)lr")
"""Schedules that reach their level early: those of PyTorch after five steps by default."""
MOVED = 0.6
"""Part of the run in which a cosine falls to a third, which one digit shows; the others fall
further. Our own number."""


def stepped_per_process(run: Run) -> Evidence | None:
    """The rate is at its end after the run's steps over the processes, or over the accumulation."""
    rate, steps = run.curve("learning_rate"), run.steps
    zero = None
    if rate is not None and any(float(value) > 0 for value in rate.values):
        highest = max(float(value) for value in rate.values)
        zero = next(
            (at for at, value in zip(rate.steps, rate.values, strict=True)
             if at > rate.steps[0] and float(value) <= 1e-3 * highest), None,
        )  # fmt: skip
    if zero is None or steps is None or not steps.number or rate is None:
        return None
    share = steps.number / zero
    for name in ("world_size", "accumulation"):
        by = run.positive(name)
        if by and (by.number or 0) > 1 and abs(share / (by.number or 1) - 1) < NEARLY:
            return Evidence(
                f"the rate ends at step {zero:,} of {cited(steps)}: a {number(share)}th, as "
                f"{cited(by)}",
                (steps, by),
                {"name": by.name.replace("_", " ")},
            )
    return None


def another_batch(run: Run) -> Evidence | None:
    """A step of the run that goes on takes another number of samples than one before."""
    found = changed("world_size", "global_batch")(run)
    if found is None:
        return None
    whole = [each.number for each in run.all("global_batch")]
    if len(whole) > 1:
        return found if whole[0] != whole[-1] else None
    own = [run.all(name) for name in ("batch_size", "accumulation", "world_size")]
    before, after = (math.prod(each[at].number or 1 for each in own if each) for at in (0, -1))
    return found if before != after else None


def same_run_made_longer(run: Run) -> Evidence | None:
    """Only the length differs in the run that goes on: another rate or data are a new stage."""
    if any(len(run.all(name)) > 1 for name in ("learning_rate", "rows")):
        return None
    return changed("max_steps", "epochs")(run)


NEARLY = 0.2
"""By how much a ratio of steps may differ from a count. Our own number."""


def many_epochs(run: Run) -> Evidence | None:
    epochs, rows = run.positive("epochs"), run.positive("rows")
    if epochs is None or (epochs.number or 0) < MANY or (rows and (rows.number or 0) > A_LOT):
        return None
    held, trained = run.curve("eval_loss"), run.curve("loss")
    best = ""
    if held and trained and held.values and max(trained.steps, default=0) > 0:
        finite = [float(value) for value in held.values]
        at = held.steps[finite.index(min(finite))] / max(held.steps[-1], 1)
        best = f"; the best evaluation is after {max(1, round(at * (epochs.number or 1)))} of them"
    over = f" over {cited(rows)}" if rows else ""
    return Evidence(f"{cited(epochs)}{over}{best}", tuple(each for each in (epochs, rows) if each))


MANY, A_LOT = 4, 50_000
"""Epochs from which on a fine-tuning learns by heart, and samples for which so many are usual.
Our own numbers."""


def unregularized(run: Run) -> Evidence | None:
    """Two of augmentation, weight decay and dropout are switched off, augmentation alone counts."""
    names = ("augmentation", "weight_decay", "dropout")
    stated = [found for name in names if (found := run.is_off(name))]
    if not stated or (len(stated) < 2 and stated[0].name != "augmentation"):
        return None
    return Evidence(", ".join(map(cited, stated)), tuple(stated))


def few_rows(run: Run) -> Evidence | None:
    rows = run.positive("rows")
    if rows is None or (rows.number or 0) > FEW:
        return None
    return Evidence(cited(rows), (rows,))


FEW = 1000
"""Samples below which a network learns them by heart. Our own number."""


def sides_differ(run: Run) -> Evidence | None:
    """The discriminator gets more of the training than the generator: by its rate or its steps."""
    one, two = run.positive("discriminator_rate"), run.positive("generator_rate")
    steps = run.positive("discriminator_steps")
    faster = (one.number or 0) / (two.number or 1) if one and two else 0.0
    often = (steps.number or 1) if steps else 1.0
    if faster * often < UNEQUAL and not (one and two and faster >= 2):
        return None
    found = tuple(each for each in (one, two, steps) if each)
    return Evidence(", ".join(map(cited, found)), found)


UNEQUAL = 2.0
"""By what one side of an adversarial training gets more, from which on it is the likely reason.
Our own number."""

"""Running statistics of observations, without which a saved policy is another one."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

KEPT = ("save_vecnormalize", "obs_rms", "get_vec_normalize", "sync_envs_normalization", "pickle",
        "dill", "cloudpickle", "save_running")  # fmt: skip
"""By these the statistics are kept in another way."""


def statistics_lost(reading: Training) -> Iterator[Match]:
    """env = VecNormalize(env), model.learn(), model.save(), and no env.save()."""
    wrapped = [c for c in reading.named("VecNormalize") if c.name.startswith("stable_baselines3.")]
    learns = [c for c in reading.named("learn") if c.receiver]
    if not wrapped or not learns or reading.mentions(*KEPT):
        return
    policies = {c.receiver for c in learns}
    saved = [c for c in reading.named("save") if not c.name.startswith(("numpy.", "torch."))]
    if not saved or any(call.receiver not in policies for call in saved):
        return
    if any(call.name.endswith("VecNormalize.load") for call in reading.named("load")):
        return
    for call in wrapped:
        scaled = evaluate.argument(reading, call, "norm_obs", 2)
        trains = any(each.scope == call.scope for each in learns)
        if trains and not (scaled is not None and evaluate.truth(reading, scaled, call) is False):
            yield Match(
                call.span,
                "the statistics of VecNormalize are not saved beside the policy: it will meet "
                "observations in another scale",
                fix="env.save(path) beside model.save(); for evaluation VecNormalize.load(path, "
                "env) with training=False and norm_reward=False.",
            )
            return

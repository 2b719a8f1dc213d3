"""Settings of config.json that no tensor shows, beside those of the model before it."""

from __future__ import annotations

from doctor._util.units import listed, shown
from doctor.checkpoint.records import ChangedSetting, Checkpoint, Movement
from doctor.judge.check import Verdict, note, warn

EXTENDED = ("rope_type", "rope_theta", "factor", "original_max_position_embeddings")
"""Settings that are changed on purpose for a longer context, and then trained with."""


def other_settings(checkpoint: Checkpoint) -> Verdict | None:
    """Settings that are not those of the model that the weights come from."""
    settings, movement = checkpoint.settings, checkpoint.movement
    if not settings:
        return None
    is_copy = isinstance(movement, Movement) and _same(movement)
    names = {each.name.rpartition(".")[2] for each in settings}
    texts = [f"{each.name} is {each.now} and was {each.before}" for each in settings]
    text = f"{listed([shown(each, 120) for each in texts], 4)} in the model that it comes from"
    if all(map(_extends, settings)) and is_copy and "rope_theta" in names:
        return warn(f"{text}, and all weights are the same: none was trained with it", fix=COPY_FIX)
    if all(map(_extends, settings)):
        return note(f"{text}, as for a longer context", fix=EXTENDED_FIX)
    before = ", ".join(f'"{each.name}": {each.before}' for each in settings[:8])
    return warn(
        f"{text}, with which the weights were trained",
        fix=f"Restore in config.json: {shown(before, 400)}. Where the weights were trained with "
        "the new values long enough, nothing is wrong.",
    )


def _same(movement: Movement) -> bool:
    """Whether every weight was compared and is as it was."""
    other = movement.changed or movement.incomparable or movement.added or movement.removed
    return bool(movement.compared and not other)


def _extends(setting: ChangedSetting) -> bool:
    """Whether it is what a longer context needs: nothing is taken back."""
    name = setting.name.rpartition(".")[2]
    if name not in EXTENDED:
        return False
    if name == "rope_type":
        return setting.before == '"default"'
    try:
        return float(setting.now) >= float(setting.before)
    except ValueError:
        return False


EXTENDED_FIX = (
    "Nothing, if the model was trained with it, or a longer context is all that is wanted. Else "
    "take config.json from the model that the run began with."
)
COPY_FIX = (
    "Take config.json from the baseline, whose weights these are: with another base of RoPE their "
    "positions mean something else. Only where a longer context is wanted without training, as "
    "YaRN and dynamic scaling allow, nothing is wrong."
)

"""Whether a file reads a sequence from its end, too: a mask of the other direction is meant."""

from __future__ import annotations

from doctor.checks.script.reading import Reading
from doctor.checks.script.rendering import lines

TURNED = ("anticausal", "anti_causal", "reverse_mask", "backward_mask", "right_to_left", "bw_mask")
WORDS = ("'backward'", "'reverse'", "'bw'")


def is_turned(reading: Reading) -> bool:
    """By a name for such a mask, or by a direction that is a text."""
    return reading.mentions(*TURNED) or any(line.text in WORDS for line in reading.cached(lines))

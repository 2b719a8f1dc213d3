"""What to do about attention kernels that are wrong: switches, calls, and ways to avoid a case."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.version import Version

from doctor.checks.numerics.attention_bugs import Bug
from doctor.checks.numerics.attention_order import CUDNN, NAMES
from doctor.checks.numerics.attention_trials import Fault
from doctor.judge.sources import SOURCES
from doctor.judge.switches import CALLS, CUDNN_VARIABLE_SINCE, VARIABLES, Switch

SWITCHES = {
    "cudnn": Switch.CUDNN_SDP,
    "flash": Switch.FLASH_SDP,
    "mem_efficient": Switch.MEM_EFFICIENT_SDP,
}
"""Backend -> its switch."""
AVOID = {
    "no mask": "use is_causal=True where the model allows it",
    "boolean mask": "use is_causal=True instead of an equivalent mask",
    "very negative logits, mask": "pad keys to a multiple of 128, or is_causal=True and no mask",
    "very negative logits": "pad keys to a multiple of 128, or is_causal=True",
    "one query": "training is not affected; generate and evaluate with another backend",
    "broadcast keys": "call .contiguous() on expanded keys and values",
    "fully masked row": "do not mask a whole row; torch 2.5 returns 0 for such rows",
    "dropout": "keep the dropout of attention at 0",
}
"""Case -> how to avoid it."""
CUDNN_ONLY = ("very negative logits, mask", "very negative logits")
"""Cases whose way to avoid them is that of cuDNN's bug."""


def sources_of(bugs: Iterable[Bug], faults: Iterable[Fault]) -> tuple[str, ...]:
    triggers = [each.case.trigger for each in faults if each.case.trigger in SOURCES]
    return tuple(dict.fromkeys([bug.source for bug in bugs] + triggers))


def _to_switch(bugs: Iterable[Bug], faults: Iterable[Fault]) -> list[str]:
    """Backends whose switch is the remedy; for broadcast keys it is .contiguous().

    None for a case that the math backend fails, too: it takes the place of one that is off.
    """
    records = tuple(faults)
    own = [NAMES[bug.backend] for bug in bugs if bug.backend == CUDNN]
    anyway = {each.case.name for each in records if each.trial.backend == "math"}
    backends: list[str] = [e.trial.backend for e in records if e.case.name not in anyway]
    return list(dict.fromkeys(own + backends))


def switches_of(bugs: Iterable[Bug], faults: Iterable[Fault]) -> tuple[Switch, ...]:
    return tuple(SWITCHES[name] for name in _to_switch(bugs, faults) if name in SWITCHES)


def commands_of(bugs: Iterable[Bug], faults: Iterable[Fault], version: Version) -> tuple[str, ...]:
    commands = []
    for switch in switches_of(bugs, faults):
        commands.append(CALLS[switch])
        if switch is Switch.CUDNN_SDP and version.release[:2] >= CUDNN_VARIABLE_SINCE:
            commands.append(f"export {VARIABLES[switch]}")
    return tuple(commands)


def fix_of(
    bugs: Iterable[Bug], faults: Iterable[Fault], wrong: Iterable[str], version: Version
) -> str:
    lines = [f"{bug.symptom}: if {bug.condition}. Fix: {bug.fix}." for bug in bugs]
    call = "Until then call" if lines else "Call"
    for switch in switches_of(bugs, faults):
        lines += _switch_off(switch, call, version)
    if any(each.trial.backend == "math" and not each.case.trigger for each in faults):
        lines.append(
            "The math backend has no kernel of its own, so suspect this torch or the device: "
            "reinstall torch in a fresh environment, then try another GPU."
        )
    for each in faults:
        name = each.case.name
        line = f'To avoid "{name}": {AVOID.get(name)}.'
        of_cudnn = name in CUDNN_ONLY and each.trial.backend != "cudnn"
        if name in AVOID and not each.serious and not of_cudnn and line not in lines:
            lines.append(line)
    if list(wrong):
        lines.append(
            'Load the model with attn_implementation="eager", or with one that is correct.'
        )
    return "\n".join(lines)


def _switch_off(switch: Switch, call: str, version: Version) -> list[str]:
    lines = [f"{call} this at the start of the script:", CALLS[switch]]
    if switch is Switch.CUDNN_SDP:
        if version.release[:2] >= CUDNN_VARIABLE_SINCE:
            lines += ["or set this before it starts:", VARIABLES[switch]]
        lines.append("Flash and memory-efficient attention are not affected.")
    return lines

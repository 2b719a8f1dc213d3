"""What PRETEND_CUDA describes, what happens of it in this process, and the errors it asks for.

PRETEND_CUDA is one JSON object:
    name, capability, memory, count   of the GPUs
    cuda, archs, cudnn                the CUDA version of torch, its GPU code, cuDNN's version
    rates                             FLOP/s by "bf16", "fp16", "tf32", "fp32"; bytes per second by
                                      "copy" (within the GPU) and "host"; for the pretended clock
    record                            file that is appended to, one JSON object a line
    errors                            [{"stage": pattern, "device": index, "text": message,
                                      "once": true}], each key but the text optional: raised at the
                                      work of such a stage on such a device, in the first process
                                      alone if "once"; without a stage at all work but CUDA's start
    forgets                           {"stage": pattern, "device": index, "operation": name}: that
                                      operation finds 1 at the sixth place of its first tensor
Lines of the record: {"pid": ..., "import": "torch"}, {"pid": ..., "context": device index},
{"pid": ..., "stage": name}, {"pid": ..., "attention": [backend, shapes, strides, dtype, shape of
the mask, causal, dropout, gradients]}, {"pid": ..., "backward": the same}.
They are written as they happen: probes are killed, so that nothing runs at their exit.
"""

from __future__ import annotations

import fnmatch
import json
import os
from typing import Any

CONFIG: dict[str, Any] = json.loads(os.environ["PRETEND_CUDA"])
STICKY = ("illegal memory access", "unspecified launch failure", "device-side assert", "misaligned")
"""Errors that every later CUDA call of the process answers with."""
_stage = ""
_broken = ""
_contexts: set[int] = set()
_calls: set[str] = set()


def write(**event: Any) -> None:
    """Append a line; short enough that processes do not mix theirs."""
    if path := CONFIG.get("record"):
        line = json.dumps({"pid": os.getpid(), **event}) + "\n"
        with open(path, "ab", buffering=0) as record:
            record.write(line.encode())


def enter(stage: str) -> None:
    global _stage
    _stage = stage
    write(stage=stage)


def once(**call: Any) -> None:
    """Record a call of attention once for each combination in a process."""
    key = json.dumps(call)
    if key not in _calls:
        _calls.add(key)
        write(**call)


def touch(index: int, error: type[Exception]) -> None:
    """The process works on a GPU: it has a context there. Raises the errors that are asked for."""
    if index not in _contexts:
        _contexts.add(index)
        write(context=index)
    fail(index, error)


def fail(index: int | None, error: type[Exception]) -> None:
    """Raise what is asked for in this stage on this device, and what sticks to the process."""
    global _broken
    if _broken:
        raise error(_broken)
    for each in CONFIG.get("errors", ()):
        if index is None and "stage" not in each:
            continue
        here = each.get("device") in (None, index)
        if here and fnmatch.fnmatchcase(_stage, each.get("stage", "*")) and _first(each):
            _broken = each["text"] if any(words in each["text"] for words in STICKY) else ""
            raise error(each["text"])


def forgets(index: int, operation: str) -> bool:
    """Whether the memory of that GPU has lost a word before this operation."""
    each = CONFIG.get("forgets")
    return (
        bool(each)
        and (each["device"], each["operation"]) == (index, operation)
        and (fnmatch.fnmatchcase(_stage, each["stage"]))
    )


def fail_kernel(line: str, error: type[Exception]) -> None:
    """Raise what a failed assertion of a kernel raises, from now on in every call."""
    global _broken
    _broken = "CUDA error: device-side assert triggered"
    os.write(2, line.encode() + b"\n")
    raise error(_broken)


def _first(each: dict[str, Any]) -> bool:
    """Whether an error is raised again, or here for the only time."""
    if not each.get("once"):
        return True
    try:
        os.close(os.open(CONFIG["record"] + ".once", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

"""The operator of an extension that a traceback ends in, above the error of a kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor.facts.interpreter import NO_CODE

CALL = re.compile(r"\btorch\.ops\.(\w{1,60})\.\w{1,80}")
FRAME = re.compile(r'File "[^"]{1,400}"')
OF_TORCH = re.compile(
    r"aten|prims?|rngprims|_?c10d\w*|higher_order|inductor|mkldnn|onednn|mkl|quantized\w*|sparse|"
    r"symm_mem|profiler|_?dtensor|fsdp|_native|_quantized|quantization|inductor_prims|"
    r"mkldnn_prepacked|export|debugprims|static_runtime|torchvision|torchaudio"
)
"""Namespaces of operators that torch itself brings."""
ABOVE = 12
"""Lines of a traceback that are looked at above its error."""


def last_operator(lines: Sequence[str]) -> str:
    """ "torch.ops._C.rms_norm": what the last call above an error without code ran; else ""."""
    for number, line in enumerate(lines):
        if not NO_CODE.search(line):
            continue
        above = lines[max(0, number - ABOVE) : number]
        for each in reversed(above):
            match = CALL.search(each)
            if match:
                return "" if OF_TORCH.fullmatch(match[1]) else match[0]
            frame = FRAME.search(each)
            if frame and "/torch/_ops.py" not in frame[0]:
                break
    return ""

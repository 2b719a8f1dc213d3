"""An error without GPU code that is an extension's, because torch has code for the GPU."""

from __future__ import annotations

import re

from doctor._util.units import dotted
from doctor.checks.torch_build.gpu_code import cubins, toolkit_without_cubins
from doctor.checks.torch_build.replacement import Replacement
from doctor.checks.torch_build.wheel_table import WHEELS
from doctor.facts.host import Host
from doctor.facts.interpreter import NO_CODE, OF_REPORT, Interpreter, Torch
from doctor.hardware.product import Capability

OPERATOR = re.compile(r"\(torch\.ops\.(\w{1,60})\.\w{1,80}\)$")
"""Behind the message: the operator of an extension that the traceback ends in."""
NIGHTLY = re.compile(r"(\d+)\.(\d+)\.\d+\.dev\d{8}\+cu(\d\d)(\d)")
ARCH_LIST = 'python -c "import torch; print(torch.__version__, torch.cuda.get_arch_list())"'
KINDS = "bitsandbytes, flash-attn, xformers, vLLM's own kernels, code that the program compiles"


def of_extension(
    torch: Torch, on: Capability | None, message: str, host: object, interpreter: object
) -> Replacement | None:
    """The remedy if the kernel is no kernel of torch's; None if it may be one. What the doctor ran
    itself is torch's: only a report has kernels of others."""
    is_pasted = isinstance(interpreter, Interpreter) and interpreter.chosen == OF_REPORT
    if torch.hip or on is None or not is_pasted or not NO_CODE.search(message):
        return None
    archs = torch.archs or _of_nightly(torch.version, host)
    operator = OPERATOR.search(message)
    has_code = bool(cubins(archs, on))
    may_have = not archs and toolkit_without_cubins(torch.cuda, on) is None
    if not has_code and not (operator and may_have):
        return None
    name = f"torch.ops.{operator[1]}" if operator else KINDS
    gpu = dotted(on)
    torch_is = f"torch {torch.version} has code for it" if has_code else "torch is not accused"
    return Replacement(
        f"Upgrade or rebuild the extension whose kernel failed, for compute capability {gpu} "
        f"({name}). Rebuild with TORCH_CUDA_ARCH_LIST={gpu}; where its authors leave this GPU "
        f"out, switch off what uses it. No other torch is needed: {torch_is}, unless the program "
        "runs another one than the report shows.",
        (ARCH_LIST,),
    )


def _of_nightly(version: str, host: object) -> tuple[str, ...]:
    """The code in the release that a nightly became, for the same CUDA; () if it is none."""
    match = NIGHTLY.fullmatch(version)
    if match is None:
        return ()
    major, minor, cuda, part = map(int, match.groups())
    arm = isinstance(host, Host) and host.arch in ("aarch64", "arm64")
    key = (major, minor), (cuda, part), "aarch64" if arm else "x86_64"
    return next((w.codes for w in WHEELS if (w.torch, w.cuda, w.platform) == key), ())

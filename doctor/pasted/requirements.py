"""Packages that do not agree: what pip finds of requirements, wheels that name another torch, and a
CUDA toolkit that compiles for another CUDA than torch's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from doctor.facts.host import Reported

NAME = r"[A-Za-z][\w.-]{1,40}"
CONFLICTS = (
    re.compile(
        rf"(?:ERROR: )?({NAME}) \d[\w.+!-]{{0,30}} (?:has requirement|requires) ({NAME})"
        r"(?:\[[\w,-]{1,40}\])?\s?\(?([<>=!~\d][^;]{0,80}?)?\)?(?:; .{0,160}?)?,"
        rf" but you(?:'ll)? have {NAME} (\d[\w.+!-]{{0,30}}\w)"
    ),
    re.compile(
        rf"The package `({NAME})` requires `({NAME})(?:\[[\w,-]{{1,40}}\])?\s?"
        r"([<>=!~][^;`]{0,80}?)(?:\s?;[^`]{0,160})?`, but `(\d[\w.+!-]{0,30})` is installed"
    ),
)
"""pip and uv: who requires what, in which version, and which one is there."""
PARTS = re.compile(r"nvidia-[a-z]+(?:-cu\d\d)?$|(?:pytorch-)?triton(?:-rocm)?$")
"""What torch pins exactly, as it is built with it."""
COMPILED = (
    "torchvision", "torchaudio", "torchtext", "xformers", "vllm", "sgl-kernel", "flash-attn",
    "torchao", "torchcodec", "torchdata", "fbgemm-gpu", "transformer-engine-torch",
)  # fmt: skip
"""Packages with compiled code for one torch."""
RAISED = re.compile(
    r"\b[A-Z]\w{2,30}Error\b|undefined symbol|CUDNN_STATUS|[Ss]egmentation fault|is broken|"
    r"cannot open shared object"
)
NOT_LOADED = re.compile(
    r"\b(?:Import|ModuleNotFound)Error\b|undefined symbol|symbol not found|DLL load failed|"
    r"cannot open shared object|[Ss]egmentation fault|SIG(?:SEGV|ABRT|ILL)|core dumped|"
    r"exit ?code:? -(?:6|11)\b|Illegal instruction|(?:double )?free\(\)|is broken"
)
"""What a text shows where compiled code does not fit its torch: it does not load, or crashes."""
WORKS = re.compile(r"\bTrue\b")
"""torch uses the GPU, and nothing was raised: somebody chose the other version."""

FOR_TORCH = (
    r"(?:torch(?P<torch>\d\.\d{1,2})|torch(?P<digits>\d{3,4})(?=cu|\b)|"
    r"pt(?P<short>\d\.?\d{1,2})(?=cu|\b|\.))"
)
"""torch2.6, torch260 with the patch, and pt26 without it."""
WHEELS = (
    re.compile(rf"\b(?P<name>[A-Za-z]\w{{1,40}})-\d[\w.]{{0,20}}\+\w{{0,12}}?{FOR_TORCH}"),
    re.compile(
        rf"^(?:\[pip3?\] )?(?P<name>{NAME})(?:==|\s{{1,50}})\d[\w.]{{0,20}}\+\w{{0,12}}?{FOR_TORCH}"
    ),
)
"""The name of a package, and the torch that its wheel names: in a file's name and in a list."""
FREEZE = re.compile(rf"^({NAME}) @ \S{{1,300}}")
TORCH = re.compile(
    r"^(?:\[pip3?\] )?torch(?:==|\s{1,60})(\d)\.(\d{1,2})\.\d|"
    r"^PyTorch version ?: (\d)\.(\d{1,2})\.\d|^Version: (\d)\.(\d{1,2})\.\d|"
    r"^['(]{0,2}(\d)\.(\d{1,2})\.\d{1,2}\+cu\d{3}\b"
)

NVCC = re.compile(r"Cuda compilation tools, release (\d{2})\.(\d)\b|"
                  r"\s*nvcc version \.{3,60} (\d{2})\.(\d)\b")  # fmt: skip
TORCH_CUDA = re.compile(
    r"\s*torch cuda version \.{3,60} (\d{2})\.(\d)\b|\btorch\S{0,24} ?\d\.\d{1,2}\.\d{1,2}\+cu"
    r"(\d{2})(\d)\b|CUDA used to build PyTorch ?: (\d{2})\.(\d)\b|"
    r"torch\.__version__\s{1,3}= \d\.\d{1,2}\.\d{1,2}\+cu(\d{2})(\d)\b|"
    r"torch\.version\.cuda\W{1,5}(\d{2})\.(\d)\b"
)
BUILDS = re.compile(
    r"\bninja\b.{0,20}(?:FAILED|-v|error)|nvcc fatal|JIT (?:build|load)|cpp_extension|"
    r"only supported on CUDA|has no attribute 'ds_opt_adam'|mismatches the version|"
    r"Error building extension|[Ff]ailed (?:to build|building)|does not match the version torch|"
    r"Installed CUDA version|subprocess-exited-with-error"
)
"""The text is about compiling: wheels alone need no toolkit."""


def read(lines: Sequence[str]) -> Iterator[Reported]:
    """What does not agree, the failure of torch's own parts first."""
    yield from _conflicts(lines)
    yield from _wheels(lines)
    yield from _toolkit(lines)


def _conflicts(lines: Sequence[str]) -> Iterator[Reported]:
    """Requirements of torch, and on torch, that pip or uv finds broken."""
    found: dict[str, None] = {}
    for line in lines:
        if "but" not in line:
            continue
        match = next(filter(None, (each.match(line.strip()) for each in CONFLICTS)), None)
        if match is None:
            continue
        owner, part = (match[at].lower().replace("_", "-") for at in (1, 2))
        of_torch = owner == "torch" and PARTS.match(part)
        if of_torch or (part == "torch" and owner in COMPILED):
            wanted = (match[3] or "in another version").strip()
            found[f"{owner} needs {part} {wanted}, and {match[4]} is installed"] = None
    if not found:
        return
    is_raised, works = (any(map(form.search, lines)) for form in (RAISED, WORKS))
    for text in () if works and not is_raised else found:
        cause = "requirement-of-torch-broken" if is_raised else "requirement-of-torch-differs"
        yield Reported(cause=cause, line=text)


def _wheels(lines: Sequence[str]) -> Iterator[Reported]:
    """Wheels whose name says that they were built for another torch than the listed one."""
    stated = {tuple(int(each) for each in match.groups() if each)
              for line in lines if "orch" in line or "+cu" in line
              if (match := TORCH.match(line.strip()))}  # fmt: skip
    if len(stated) != 1:
        return
    major, minor = stated.pop()
    failed = any(map(NOT_LOADED.search, lines))
    for line in lines:
        if "+" not in line:
            continue
        listed = FREEZE.match(line) or not re.search(r"\bpip3? install\b|https?://", line)
        match = next(filter(None, (each.search(line) for each in WHEELS)), None) if listed else None
        if match and (built := _built_for(match)) != f"{major}.{minor}":
            text = f"{match['name']} is a wheel for torch {built}"
            is_matter = failed or any(_raises(each, match["name"]) for each in lines)
            yield Reported(
                cause="wheel-for-other-torch" if is_matter else "wheel-for-other-torch-listed",
                line=f"{text}, and torch {major}.{minor} is installed",
            )


def _raises(line: str, name: str) -> bool:
    """Whether the line is an error that names the package."""
    words = line.lower().replace("-", "_")
    return name.lower().replace("-", "_") in words and bool(re.search(r"[a-z]Error: ", line))


def _built_for(match: re.Match[str]) -> str:
    """The release of torch in a wheel's name, as "2.6"."""
    if match["torch"]:
        return match["torch"]
    digits = (match["digits"] or "")[:-1] or match["short"].replace(".", "")
    return f"{digits[0]}.{digits[1:]}"


def _toolkit(lines: Sequence[str]) -> Iterator[Reported]:
    """nvcc of another major CUDA than torch's, in a text about something that does not build."""
    if not any(map(BUILDS.search, lines)):
        return
    toolkits, cudas = (
        {tuple(int(each) for each in match.groups() if each)
         for line in lines for match in form.finditer(line)}
        for form in (NVCC, TORCH_CUDA)
    )  # fmt: skip
    if len(toolkits) != 1 or len(cudas) != 1:
        return
    (toolkit,), (cuda,) = toolkits, cudas
    refuses = any("only supported on CUDA" in line for line in lines) and toolkit < cuda
    if toolkit[0] != cuda[0] or refuses:
        text = f"nvcc is of CUDA {toolkit[0]}.{toolkit[1]}, torch was built with CUDA"
        yield Reported(cause="toolkit-of-other-cuda", line=f"{text} {cuda[0]}.{cuda[1]}")

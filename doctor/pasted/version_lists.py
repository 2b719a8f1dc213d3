"""Lists of versions: the `env` commands of launchers and libraries, and lists that people write.

One label, one value a line. The forms are those of `transformers env`, `accelerate env`,
`llamafactory-cli env`, `lerobot-info`, `python -m sglang.check_env` and `python -m xformers.info`.
"""

from __future__ import annotations

import re
from itertools import takewhile

from doctor.facts.machine import Gpu
from doctor.pasted.reading import Reading, cuda_of, gpu_named, hip_of, system_of

ROW = re.compile(
    r"\s*(?:\|\s*)?[`*]{0,3}([A-Za-z][\w .,/+-]{0,40}?(?:\(s\))?)[`*]{0,3}( version)?"
    r"\s?(?:\([^()]{1,30}\?\))?\??[`*]{0,3}\s*[:|=]\s*[`*]{0,3}(\S.{0,260}?)[`*|\s]{0,6}$",
    re.IGNORECASE,
)
"""Label and value: "- `transformers` version: 4.57.1", "| GPU | RTX 5090 |"."""

KINDS = {
    "llamafactory version": "llamafactory-cli env",
    "lerobot version": "lerobot-info",
    "sgl_kernel": "sglang check_env",
    "sglang": "sglang check_env",
}
"""A label that one form alone has -> the form."""
TORCH = ("pytorch version", "torch version", "pytorch", "torch", "pytorch.version")
AVAILABLE = ("cuda available", "rocm available", "is cuda available", "pytorch.cuda")
NAMES = (
    "gpu type", "gpu model", "gpu name", "gpu", "gpus", "device", "cuda device", "gpu.name",
    "cuda device(s)",
)  # fmt: skip
DRIVERS = (
    "cuda driver version", "nvidia driver version", "nvidia driver", "driver version", "driver",
)  # fmt: skip
PLATFORMS = ("platform", "os")

VERSION = re.compile(r"v?(\d{1,2}\.\d{1,3}[\w.+-]{0,40})(?: \(([\w ]{1,10})\))?")
CUDA = re.compile(r"(?:CUDA )?(\d{2}\.\d)(?:\.\d{1,4})?")
RUNTIME = re.compile(r"\s*(?:- )?CUDA Runtime (\d{2}\.\d)\s*$")
"""What torch.__config__.show() prints of the build, as in the lists of mmcv and detectron2."""
DRIVER = re.compile(r"(?:NVIDIA )?v?(\d{3}\.[\d.]{1,12})\b")
MANY = re.compile(r"gpu ([\d,]{1,400})")
CAPABILITY = re.compile(r"gpu ([\d,]{1,400}) compute capability")
OF_SMI = re.compile(r"^GPU|\(UUID: ")
"""A row of a table, or a line of nvidia-smi -L: another report's."""
COUNT = re.compile(r"(?:(\d{1,4})\s?[x×]\s?(?=\D))?(.{3,80}?)(?:\s?[x×]\s?(\d{1,4}))?$")
KNOWN_GPU = re.compile(
    r"\b(?:NVIDIA|GeForce|GTX|RTX|Quadro|Tesla|TITAN|[ABHLPTV]\d{1,4}[SGX]?|GB\d{2,3}|GH200|"
    r"Jetson|Orin|Thor|Radeon|Instinct|MI\d{2,3}[AX]?)\b"
)
IN_SCRIPT = re.compile(r"(?!no\b)(?:yes\W{1,3})?(?:an? |the |one )?(.{3,80})$", re.IGNORECASE)
"""The GPU that people write behind "Using GPU in script?" of transformers env."""
NO_ACCELERATOR = ("NA", "False", "XPU", "NPU", "HPU")
MOST_GPUS = 1024
BLOCK, LISTED = re.compile(r"\s*CUDA:$"), re.compile(r"\s*GPU:$")
GPU_LINE = re.compile(r"\s*([A-Z][^:]{3,80})$")
WHETHER = re.compile(r"\s*available: {1,12}(True|False)$")
"""Lines of Lightning's report, without their bullets."""


def read(lines: list[str]) -> Reading:
    """The first list in the lines: torch's version, and a GPU, a driver or a platform beside it."""
    values: dict[str, str] = {}
    for line in lines:
        if len(line) < 300 and (match := ROW.match(line)):
            label = " ".join(f"{match[1]}{match[2] or ''}".lower().split())
            values.setdefault(label, match[3])
        elif match := RUNTIME.match(line):
            values.setdefault("cuda runtime", match[1])
    values = _of_lightning(lines) | values
    torch, in_brackets = _torch(values)
    gpus = _gpus(values)
    asked = IN_SCRIPT.match(values.get("using gpu in script", ""))
    if not gpus and asked and "+cpu" in (torch or ""):  # the build of a script for a GPU
        gpus = _gpus({"gpu": asked[1]})
    driver = next((m[1] for label in DRIVERS if (m := DRIVER.match(values.get(label, "")))), None)
    platform = next((values[label] for label in PLATFORMS if label in values), None)
    about = [gpus, driver, platform and _is_platform(platform), values.keys() & {*AVAILABLE}]
    if torch is None or not any(about):
        return Reading()
    hip = hip_of(torch) or _hip(values)
    available = _available(values, in_brackets)
    return Reading(
        kinds=(_kind(values, in_brackets),),
        torch=torch,
        cuda=_cuda(torch, values),
        hip=hip,
        # A list without a GPU does not tell whether there is one that should be used.
        cuda_available=available if gpus or driver or available else None,
        cuda_denied=available is False or values.get("pytorch accelerator", "").upper() == "N/A",
        python=next((m[0] for m in [re.match(r"3\.[\d.]{1,8}", _python(values))] if m), None),
        driver=None if hip else driver,
        amd=True if hip else None,
        gpus=gpus,
        **(system_of(platform) if platform and _is_platform(platform) else {}),
    )


def _of_lightning(lines: list[str]) -> dict[str, str]:
    """The block CUDA of Lightning's report, whose GPUs have a line each."""
    start = next((n for n, line in enumerate(lines) if BLOCK.match(line)), None)
    if start is None or not lines[start + 1 :] or not LISTED.match(lines[start + 1]):
        return {}
    below = lines[start + 2 : start + 2 + MOST_GPUS]
    names = [m[1] for m in takewhile(bool, map(GPU_LINE.match, below)) if m]
    available = next(filter(None, map(WHETHER.match, below)), None)
    found = {"cuda available": available[1]} if available else {}
    return found | ({"gpu": names[0], "gpu number": str(len(names))} if names else {})


def _hip(values: dict[str, str]) -> str | None:
    """sglang check_env names the compiler of ROCm."""
    match = re.search(r"HIP version: (\d+\.\d+)", values.get("hipcc", ""))
    return match[1] if match else None


def _kind(values: dict[str, str], in_brackets: str) -> str:
    named = next((kind for label, kind in KINDS.items() if label in values), None)
    if named is None and "transformers version" in values:
        named = "transformers env"
    if named is None and "accelerate version" in values:
        named = "accelerate env"
    return named or ("a list of versions" if not in_brackets else "an env command")


def _is_platform(text: str) -> bool:
    return bool(re.match(r"(?:Linux|Windows|macOS|Darwin|Ubuntu|Debian)\b", text))


def _python(values: dict[str, str]) -> str:
    return next((values[label] for label in ("python version", "python") if label in values), "")


def _torch(values: dict[str, str]) -> tuple[str | None, str]:
    """torch's version, and what stands in brackets behind it: CUDA, GPU, True, NA."""
    for label in TORCH:
        match = VERSION.match(values.get(label, ""))
        if match:
            return match[1].rstrip("."), match[2] or ""
        if values.get(label, "").lower().startswith("not installed"):
            return "", ""
    return None, ""


def _cuda(torch: str, values: dict[str, str]) -> str | None:
    """The CUDA of torch's build, by its version's suffix or by the list."""
    by_suffix = cuda_of(torch)
    if by_suffix is not None or "cuda runtime" in values:
        return by_suffix if by_suffix is not None else values["cuda runtime"]
    if values.get("is pytorch built with cuda support", "").lower() == "false":
        return ""
    stated = CUDA.match(values.get("cuda version", ""))
    # lerobot-info states torch's; elsewhere this may be the driver's or the toolkit's.
    return stated[1] if stated and "is pytorch built with cuda support" in values else None


def _available(values: dict[str, str], in_brackets: str) -> bool | None:
    stated = next((values[label] for label in AVAILABLE if label in values), "").lower()
    if stated[:4] in ("true", "yes", "avai") or in_brackets in ("CUDA", "GPU", "True"):
        return True
    if stated[:5] in ("false", "no", "not a") or in_brackets in NO_ACCELERATOR:
        return False
    return None


def _gpus(values: dict[str, str]) -> tuple[Gpu, ...]:
    numbered: dict[int, str] = {}
    capabilities: dict[int, tuple[int, int]] = {}
    for label, value in values.items():
        if match := CAPABILITY.fullmatch(label):
            number = re.match(r"(\d{1,2})\.(\d)$", value)
            if number is not None:
                found = int(number[1]), int(number[2])
                capabilities |= dict.fromkeys(_indices(match[1]), found)
        elif (match := MANY.fullmatch(label)) and not OF_SMI.search(value):
            numbered |= dict.fromkeys(_indices(match[1]), value)
    if not numbered:
        named = next((values[label] for label in NAMES if label in values), "")
        match, names = COUNT.match(named), named.split(", ")
        if len(names) > 1 and all(map(KNOWN_GPU.search, names)):
            numbered = dict(enumerate(map(_name, names)))
        elif match and KNOWN_GPU.search(match[2]):
            stated = match[1] or match[3] or values.get("gpu number", "1")
            count = min(int(stated), MOST_GPUS) if re.fullmatch(r"\d{1,4}", stated) else 1
            numbered = dict.fromkeys(range(count), _name(match[2]))
    return tuple(
        _gpu(index, numbered[index], capabilities.get(index))
        for index in sorted(numbered)[:MOST_GPUS]
    )


def _gpu(index: int, name: str, capability: tuple[int, int] | None) -> Gpu:
    return gpu_named(index, name, capability=capability) if capability else gpu_named(index, name)


def _indices(numbers: str) -> list[int]:
    return [int(each) for each in numbers.split(",") if 0 < len(each) < 5][:MOST_GPUS]


def _name(text: str) -> str:
    """A GPU's name without the memory in brackets that people write behind it, and without what
    ComfyUI prints around it: "cuda:0 ... : native"."""
    text = re.sub(r"^cuda:\d{1,3} | : \w{4,20}$", "", text)
    return re.sub(r"\s*\(.{0,60}\)?\s*$", "", text).strip(" ,;.")

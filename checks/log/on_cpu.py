"""A training that computes on the CPU although its log names a GPU."""

from __future__ import annotations

from doctor.checks.log.differential.row import cited
from doctor.checks.log.differential.run import Run
from doctor.facts.log import Log
from doctor.judge.check import Verdict, warn
from doctor.judge.place import Place

OF_CPU = (
    "The installed torch is built without CUDA: install the build for the driver's CUDA, in the "
    "environment of the job (pip install torch --index-url https://download.pytorch.org/whl/cu126; "
    "with uv or poetry name that index for torch, since the lock file may hold +cpu)."
)
NOT_CHOSEN = (
    "Look at the first lines of the job on its node: whether torch.cuda.is_available() is True, "
    "CUDA_VISIBLE_DEVICES is not empty, the scheduler gave a GPU (--gres), and the device is not "
    "set to cpu by an option."
)


def on_cpu(log: Log) -> Verdict | None:
    """The first file of such a training; None where there is none."""
    found = (_on_cpu(log, file.path) for file in log.files if log.stated)
    return next((each for each in found if each), None)


def _on_cpu(log: Log, path: str) -> Verdict | None:
    """A GPU is named, and torch is built without CUDA or cpu is the only device."""
    run = Run(log, path)
    gpu, builds = run.setting("gpu"), run.all("torch_build")
    built = next((each for each in builds if each.text.endswith("+cpu")), None)
    computes = run.all("computes_on")
    device = computes[0] if computes and run.kinds("computes_on") == {"cpu"} else None
    if gpu is None or (built is None and device is None):
        return None
    if "cuda" in run.kinds("computes_on") or (built and len(builds) > 1):
        return None
    named = [each for each in (built, device, gpu) if each]
    return warn(
        f"the training runs on the CPU: {', '.join(map(cited, named))}",
        fix=OF_CPU if built else NOT_CHOSEN,
        places=tuple(Place(path=e.path, line=e.line, text=f"{e.name} {e.text}") for e in named),
    )

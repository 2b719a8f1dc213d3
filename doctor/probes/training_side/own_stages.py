"""The user's own training: built, trained for a few steps, and measured.

Imported by torch_stages.py on demand; standard library and torch only, Python 3.9.
    {"stage": "prepare", "subject": {...}}
    {"stage": "own", "subject": {...}, "device": "cpu", "precision": "bf16", "recipe": "amp"}
Fields of doctor.facts.own_model.OwnModel are sent as notes, {"own": {field: value}}, as soon as
they are known, so that a later crash of the user's code does not lose them.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
import time
import traceback
from typing import Any, Dict, List, Optional

import torch
import wire

training_step = wire.sibling("training_step")
switches = wire.sibling("switches")
subjects = wire.sibling("subjects")
raised = wire.sibling("raised")
stack_frames = wire.sibling("stack_frames")

HIDDEN, is_library = stack_frames.HIDDEN, stack_frames.is_library
USER_FRAMES, LIBRARY_FRAMES = 8, 2
"""Frames of a traceback to report: of the user's files, and the last ones of libraries."""
SECRET = re.compile("TOKEN|SECRET|PASSWORD|CREDENTIAL|KEY", re.IGNORECASE)
DISTRIBUTIONS = ("transformers", "peft", "accelerate", "lightning", "pytorch_lightning")
WRITTEN_FOR_THE_USER = ("NotAFactory", "NotBuilt", "Unsupported", "NotPossible")
"""Errors whose message is complete without a traceback."""


def prepare(request: Dict[str, Any]) -> None:
    """Import what the subject needs; an error is left to the stage that needs it."""
    dump_stacks(request.get("limit"))
    try:
        wire.sibling("transformers_model").prepare(request["subject"])
    except Exception:
        return
    finally:
        faulthandler.cancel_dump_traceback_later()


def own(request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Everything about the subject except the LoRA orders and torch.compile."""
    device = torch.device(request["device"])
    precision, recipe = request["precision"], request["recipe"]
    dump_stacks(request.get("limit"))
    started = time.perf_counter()
    hooks = wire.sibling("stray_hooks").Registrations()
    try:
        with hooks:
            subject = subjects.build(request["subject"], device, recipe)
    except Exception as error:
        note_failed_build(error, time.perf_counter() - started)
        exit_unless_cpu(device)
        return {"done": True}
    wire.sibling("changes").mark(subject.module)
    hooks.watch(subject.module)
    note(built={"how": "ok", "seconds": time.perf_counter() - started}, **counts(subject.module))
    note(settings=settings(subject.module), batch=batch_facts(subject.batch))
    note(computed_once=wire.sibling("unregistered").with_graph(subject.module))
    note(ineffective=wire.sibling("ineffective").ineffective(subject.module))
    if precision == "fp16":
        note(scalers=scalers(request["subject"], subject, device))
    stage = training_step.Timed(device)
    training: List[Any] = []
    begun = time.perf_counter()
    try:
        smoke = training_step.run(
            stage, lambda: subject, device, precision, recipe, on_start=training.append
        )
    except Exception as error:
        note(traceback=tail(error), settings=settings(subject.module))
        note(stray_hooks=hooks.strays())
        note_failed_step(error, subject.module, training, stage, time.perf_counter() - begun)
        wire.send(error="%s: %s" % (stage.inside, explained(error)))
        exit_unless_cpu(device)
        return None
    names = wire.sibling("unregistered").unregistered(subject)
    note(smoke=smoke, settings=settings(subject.module), unregistered=names)
    note(stray_hooks=hooks.strays())
    more = wire.sibling("more_steps")
    note(trend=more.trend(subject, device, precision, recipe, smoke))
    memory = wire.sibling("memory_points")
    note(points=memory.measure_points(request["subject"], subject, device, precision, recipe))
    note(**memory.saved(subject, request["subject"]))
    return {"done": True}


def note_failed_build(error: Exception, seconds: float) -> None:
    ended = {"how": "error", "detail": explained(error), "seconds": seconds}
    note(built=ended, traceback=tail(error))
    note(raised=scene(error))
    note(beyond=type(error).__name__ == "Unsupported")


def note_failed_step(
    error: Exception, module: torch.nn.Module, training: List[Any], stage: Any, seconds: float
) -> None:
    """What the traceback shows, and a repetition; `training` is empty before it starts."""
    fields = scene(error, module)
    note(raised=fields)  # a repetition may crash
    if training and fields:
        more = wire.sibling("repeat_step").observe(training[0], stage.inside, error, seconds)
        note(raised=joined(fields, more))


def dump_stacks(limit: Any) -> None:
    """Write the Python stacks to stderr at a crash, and every `limit` seconds."""
    stderr = os.dup(2)  # the user's code may close or redirect its own
    faulthandler.enable(file=stderr, all_threads=False)
    if limit:
        faulthandler.dump_traceback_later(float(limit), repeat=True, file=stderr)


def note(**fields: Any) -> None:
    wire.send(note={"own": fields})


def exit_unless_cpu(device: torch.device) -> None:
    """A CUDA error persists in its process, so end it."""
    if device.type != "cpu":
        os._exit(1)


def counts(module: torch.nn.Module) -> Dict[str, Any]:
    """Parameters of the model, tied ones once, and the versions of the libraries it uses."""
    weights = list(module.parameters())
    return {
        "parameters": sum(weight.numel() for weight in weights),
        "trainable": sum(weight.numel() for weight in weights if weight.requires_grad),
        "versions": versions(),
    }


def versions() -> Dict[str, str]:
    """Distribution -> version, of the imported ones."""
    imported = [name for name in DISTRIBUTIONS if name in sys.modules]
    named = {name: getattr(sys.modules[name], "__version__", None) for name in imported}
    return {name: str(version) for name, version in named.items() if version is not None}


def settings(module: torch.nn.Module) -> Dict[str, Any]:
    """The current numeric switches; these getters never raise, whatever was set."""
    cudnn: Any = torch.backends.cudnn
    try:
        conv = cudnn.conv.fp32_precision == "tf32"
    except AttributeError:  # before torch 2.9
        conv = bool(cudnn.allow_tf32)
    return {
        "when": "after the model's code",
        "tf32_matmul": switches.tf32_matmul(torch)[0],
        "tf32_conv": conv,
        "sdp_enabled": switches.sdp_enabled(torch),
        "deterministic": bool(torch.are_deterministic_algorithms_enabled()),
        "cudnn_benchmark": bool(cudnn.benchmark),
        "attention": subjects.attention_of(module),
    }


def batch_facts(batch: Any) -> List[Dict[str, Any]]:
    """Shape, dtype and range of each tensor of the batch."""
    with wire.stage("look at the batch"):
        return [_tensor_facts(name, each) for name, each in subjects.tensors(batch).items()]


def _tensor_facts(name: str, value: torch.Tensor) -> Dict[str, Any]:
    facts: Dict[str, Any] = {
        "name": name,
        "dtype": str(value.dtype).replace("torch.", ""),
        "shape": list(value.shape),
    }
    if value.is_complex() or not value.numel():
        return facts
    wide = value.detach().to(torch.float64 if value.device.type == "cpu" else torch.float32)
    finite = torch.isfinite(wide)
    facts["nonfinite"] = int((~finite).sum())
    if bool(finite.any()):
        facts["low"] = float(wide[finite].min())
        facts["high"] = float(wide[finite].max())
    return facts


def scalers(spec: Dict[str, Any], subject: Any, device: torch.device) -> List[Dict[str, Any]]:
    """Whether a GradScaler accepts the dtype of these weights, and from_pretrained's default."""
    halves = {torch.float16, torch.bfloat16}
    kinds = {weight.dtype for weight in subject.weights.values()}
    dtypes = {"the model": min(kinds & halves or kinds, key=str)}
    if spec["kind"] == "hf":
        dtypes["from_pretrained"] = wire.sibling("transformers_model").usual_dtype(
            spec["directory"]
        )
    return [
        {"of": of, "dtype": str(dtype).replace("torch.", ""), "ended": unscaled(dtype, device)}
        for of, dtype in dtypes.items()
    ]


def unscaled(dtype: torch.dtype, device: torch.device) -> Dict[str, Any]:
    """How a GradScaler's unscale_ ends on one gradient of that dtype."""
    started = time.perf_counter()
    ended: Dict[str, Any] = {"how": "ok"}
    with wire.stage("unscale a gradient in %s" % dtype):
        try:
            weight = torch.ones(4, dtype=dtype, device=device, requires_grad=True)
            scaler = training_step.scaler_of(device)
            scaler.scale(weight.float().sum()).backward()
            scaler.unscale_(training_step.optimizer_of([weight], training_step.LR))
        except Exception as error:
            ended = {"how": "error", "detail": explained(error)}
    return dict(ended, seconds=time.perf_counter() - started)


def explained(error: BaseException) -> str:
    """The error in one line, with secrets of the environment removed."""
    complete = type(error).__name__ in WRITTEN_FOR_THE_USER
    inner = of_worker(error)
    text = "%s (in a worker of the DataLoader)" % inner[-1] if inner else wire.describe(error)
    place = getattr(error, "doctor_place", "")
    text = text.partition(ANOMALY)[0]
    return without_secrets(str(error) if complete else text + place)


def scene(error: BaseException, module: Any = None) -> Optional[Dict[str, Any]]:
    """The error as a doctor.facts.raised.Raised; None if its message is complete."""
    if type(error).__name__ in WRITTEN_FOR_THE_USER:
        return None
    return without_secrets_in(raised.scene(error, module))  # type: ignore[no-any-return]


def joined(fields: Dict[str, Any], more: Dict[str, Any]) -> Any:
    """The error with what its repetition showed."""
    observed = {**fields["observed"], **more.get("observed", {})}
    if "function" in more and fields.get("function"):
        observed["through"] = fields["function"]
    return without_secrets_in({**fields, **more, "observed": observed})


def without_secrets_in(value: Any) -> Any:
    """Nested lists and dicts whose texts have no secrets of the environment."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {key: without_secrets_in(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_secrets_in(each) for each in value]
    return value


def of_worker(error: BaseException) -> List[str]:
    """The lines of the traceback in the message of an error that a DataLoader passes on from a
    worker, the error last; [] for any other."""
    lines = [line for line in str(error).splitlines() if line.strip(" ^~")]
    starts = [index for index, line in enumerate(lines) if line.startswith(ORIGINAL)]
    if not starts:
        return []
    inner = lines[starts[-1] + 1 :]
    ends = [index for index, line in enumerate(inner) if not line.startswith(" ")]
    return inner[: ends[0] + 1] if ends else []


def tail(error: BaseException) -> str:
    """The traceback: frames of the user's files, the last ones of libraries, and the error."""
    if type(error).__name__ in WRITTEN_FOR_THE_USER:
        if error.__cause__ is None:
            return ""
        error = error.__cause__
    if inner := of_worker(error):
        return without_secrets("\n".join(["Traceback (most recent call last):", *users(inner)]))
    whole = traceback.TracebackException.from_exception(error, limit=None)
    frames = [
        frame
        for frame in whole.stack
        if not (frame.filename.startswith(HIDDEN) or frame.name in stack_frames.MODULE_CALLERS)
    ]
    used = [index for index, frame in enumerate(frames) if not is_library(frame.filename)]
    shown = set(used[-USER_FRAMES:]) | set(range(len(frames))[-LIBRARY_FRAMES:])
    if not used:
        shown = set(range(len(frames))[-USER_FRAMES:])
    whole.stack = traceback.StackSummary.from_list([frames[index] for index in sorted(shown)])
    whole.__cause__ = whole.__context__ = None
    lines = [line for line in "".join(whole.format()).splitlines() if line.strip(" ^~")]
    head, last = lines[: 1 + 2 * len(shown)], lines[1 + 2 * len(shown) :]
    return without_secrets("\n".join([*head, *last[:MESSAGE_LINES]]) if frames else "")


def users(lines: List[str]) -> List[str]:
    """The lines of a traceback without the frames of libraries, unless it has no others."""
    starts = [index for index, line in enumerate(lines) if FILE.match(line)]
    frames = [lines[a:b] for a, b in zip(starts, [*starts[1:], len(lines) - 1])]
    own = [frame for frame in frames if not is_library(FILE.match(frame[0])[1])]  # type: ignore[index]
    return [line for frame in (own or frames)[-USER_FRAMES:] for line in frame] + lines[-1:]


ORIGINAL = "Original Traceback"
ANOMALY = " Hint: enable anomaly detection"
"""What repeat_step.py has done already."""
FILE = re.compile(r'^ +File "([^"]*)", line \d+')
MESSAGE_LINES = 6


def without_secrets(text: str) -> str:
    for name, value in os.environ.items():
        if len(value) >= 8 and SECRET.search(name):
            text = text.replace(value, "***")
    return text

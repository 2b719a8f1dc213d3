"""The stages of the torch child, and the sections they fill."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from doctor._util.records import Ended, Unknown
from doctor._util.text_fields import Product
from doctor.collect.background import background
from doctor.collect.child import Child
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children, NotStartedError, fit, read, unless_cut_off
from doctor.collect.early import PROBE
from doctor.facts.interpreter import Cuda, Interpreter, Libraries, Torch, TorchGpu
from doctor.facts.training import Smoke, Stage, Step
from doctor.job.job import Chosen, Job, Precision

IMPORT_SECONDS = 120.0
CUDA_SECONDS = 45.0
"""Without persistence mode the driver first initializes one GPU after the other."""
KERNEL_SECONDS = 60.0
"""A kernel that exists only as PTX is compiled at its first launch, and the first matmul loads
gigabytes of libraries, possibly from a slow disk."""
SMOKE_SECONDS = 120.0

ReportProgress = Callable[[str], None]


class TorchChild:
    """One process for all torch stages; if it dies, a new one continues with the next stage."""

    def __init__(
        self,
        children: Children,
        python: str,
        env: Mapping[str, str] | None = None,
        started: Child | None = None,
    ) -> None:
        """`started`: its process, if that runs already."""
        self._children = children
        self.python = python
        self._env = env
        self._child = started
        self._failed: Answer | None = None
        self._imported = False
        if started is None:
            self._start()
        else:
            children.adopt(started)

    def _start(self) -> None:
        self._imported = False
        try:
            self._child = self._children.start(self.python, PROBE, env=self._env)
        except NotStartedError as error:
            self._failed = Answer(error.ended)

    def imported(self) -> Answer:
        """The answer to `import torch`, which the child sends without a request."""
        if self._child is None:
            return self._failed or Answer(Ended(how="error"))
        self._imported = True
        answer = self._child.wait(IMPORT_SECONDS)
        if not answer.ended.ok:
            self._failed = answer
            self.end()
        return answer

    def request(
        self,
        seconds: float,
        report_progress: ReportProgress = lambda stage: None,
        on_note: Callable[[dict[str, Any]], None] | None = None,
        extra_seconds: float = 0.0,
        **fields: object,
    ) -> Answer:
        """Run one stage. With `on_note`, each note restarts the deadline of `seconds`; a process
        that computes has `extra_seconds` more."""
        if self._failed:
            return self._failed
        if self._child is None or not self._child.alive:
            self.end()
            self._start()
        if not self._imported:
            imported = self.imported()
            if not imported.ended.ok or self._child is None:
                return imported
        assert self._child
        self._child.send(fields)
        answer = self._child.wait(seconds, report_progress, on_note, extra_seconds)
        if not (answer.ended.ok or (answer.ended.how == "error" and fields.get("device") == "cpu")):
            self.end()  # a CUDA error persists in its process
        return answer

    def announce(self, **fields: object) -> None:
        """Send a request that has no answer, to be served before the next one.

        It is lost if the process dies: a new one does not get it.
        """
        if self._child:
            self._child.send(fields)

    @property
    def output(self) -> str:
        return self._child.output if self._child else ""

    def abort(self) -> None:
        """Kill the process and do not wait; safe to call while another thread waits for it."""
        if self._child:
            self._child.kill_group()

    def end(self) -> None:
        """End the process, if there is one."""
        if self._child:
            self._child.kill()


def read_import(
    path: str, chosen: str, child: TorchChild
) -> tuple[Interpreter | Unknown, Torch | Unknown]:
    """Wait for `import torch` in the training interpreter."""
    answer = child.imported()
    known = {name: value for note in answer.notes for name, value in note.items()}
    pip, origin = known.get("pip"), known.get("torch_path")
    packages = fit(known.get("packages"), tuple[Product, ...])
    installed = fit(known.get("installed"), tuple[Product, ...])
    tail = "" if answer.ended.ok else "\n".join(child.output.strip().splitlines()[-12:])
    interpreter = Interpreter(
        path=path,
        chosen=chosen,
        version=str(known.get("version", "")),
        started=bool(known) or answer.ended.how not in ("error", "signal"),
        importing=answer.ended,
        traceback=tail,
        pip=pip if isinstance(pip, bool) else None,
        uv=shutil.which("uv") is not None if pip is False else None,
        packages=packages if isinstance(packages, tuple) else (),
        installed=installed if isinstance(installed, tuple) else None,
        torch_path=origin if isinstance(origin, str) else None,
    )
    if not answer.ended.ok:
        reason = f"torch was not imported: {answer.ended.detail}"
        return unless_cut_off(interpreter, answer.ended), Unknown(reason=reason)
    return interpreter, read(answer, "torch", Torch)


def read_devices(child: TorchChild, report_progress: ReportProgress) -> Cuda | Unknown:
    """Start CUDA in torch and list the devices it sees."""
    report_progress("starting CUDA in torch")
    answer = child.request(CUDA_SECONDS, stage="devices")
    if answer.answer is None and answer.ended.how != "budget":
        return Cuda(started=answer.ended)
    return read(answer, "cuda", Cuda)


def run_kernels(
    cuda: Cuda,
    processes: Sequence[TorchChild],
    report_progress: ReportProgress,
    count: int | None = None,
) -> Cuda:
    """Run a kernel on every GPU of the job, each in the only process that uses that GPU.

    `count`: GPUs of the job, None: all. If only the first one has a process, that runs the kernels
    up to the first failure.
    """
    gpus = list(cuda.gpus)
    used = gpus[:count]
    if len(processes) == 1:
        for gpu in used:
            gpus[gpu.index] = _with_kernel(processes[0], gpu, report_progress)
            if not gpus[gpu.index].ran:
                break
    else:
        pairs = zip(processes, used, strict=True)
        running = [background(partial(_with_kernel, *pair, report_progress)) for pair in pairs]
        gpus[: len(used)] = [each.result() for each in running]
    return msgspec.structs.replace(cuda, gpus=tuple(gpus))


def _with_kernel(child: TorchChild, gpu: TorchGpu, report_progress: ReportProgress) -> TorchGpu:
    report_progress(f"running a kernel on GPU {gpu.index}")
    answer = child.request(KERNEL_SECONDS, stage="kernel", index=gpu.index)
    kernel = read(answer, "kernel", Ended)
    if isinstance(kernel, Unknown):
        kernel = answer.ended
    if not kernel.ok:  # a CUDA error persists: the next stage needs a new process
        child.end()
    return msgspec.structs.replace(gpu, kernel=kernel)


def read_libraries(
    child: TorchChild, torch: Torch, cuda: Cuda, precision: str = ""
) -> tuple[Libraries | Unknown, Torch, Cuda]:
    """The libraries after kernels ran; cuDNN's version and SDPA's order are known only then.

    `precision`: the job's, "" if it is not known.
    """
    answer = child.request(KERNEL_SECONDS, stage="libraries", precision=precision)
    libraries = read(answer, "libraries", Libraries)
    if isinstance(libraries, Libraries) and libraries.used and not libraries.used.ok:
        child.end()
    content = answer.answer or {}
    version, error = content.get("cudnn"), content.get("cudnn_error")
    if isinstance(version, int) or isinstance(error, str):
        torch = msgspec.structs.replace(torch, cudnn=version, cudnn_error=error)
    order = fit(content.get("sdp_priority"), tuple[int, ...])
    if not isinstance(order, Unknown):
        cuda = msgspec.structs.replace(cuda, sdp_priority=order)
    return libraries, torch, cuda


def run_smoke(
    child: TorchChild, job: Job, device: str, chosen: Chosen, report_progress: ReportProgress
) -> Smoke | Unknown:
    """A few real training steps, and how they ended if they did not complete."""
    recipe = job.recipe or "amp"
    answer = child.request(
        SMOKE_SECONDS,
        lambda stage: report_progress(f"training a small model on {device}: {stage}"),
        stage="smoke",
        device=device,
        precision=chosen.precision,
        recipe=recipe,
    )
    if answer.ended.ok and not isinstance(smoke := read(answer, "smoke", Smoke), Unknown):
        return msgspec.structs.replace(smoke, seconds=answer.ended.seconds)
    smoke = cut_short(answer, device, chosen.precision, recipe)
    return unless_cut_off(smoke, *(stage.ended for stage in smoke.stages))


def cut_short(answer: Answer, device: str, precision: Precision, recipe: str) -> Smoke:
    """The record of a training that did not complete."""
    ended = answer.ended
    if ended.ok:
        ended = Ended(how="error", detail="the smoke step's answer is not a valid Smoke")
    stages = [Stage(name=name, ended=how) for name, how in answer.stages]
    if not stages or stages[-1].ended.ok:
        stages.append(Stage(name="between stages", ended=ended))
    steps = [fit(note.get("step"), Step) for note in answer.notes]
    return Smoke(
        device=device,
        precision=precision,
        recipe=recipe,
        lr=0.0,
        stages=tuple(stages),
        steps=tuple(step for step in steps if isinstance(step, Step)),
        seconds=answer.ended.seconds,
    )

"""The functions of `preflight_doctor`: thin ways into what the commands do."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import msgspec

from doctor._util.errors import UserError
from doctor._util.units import parse_count
from doctor.cli.examination import called_from_python
from doctor.cli.options import ConfigFlags
from doctor.facts.facts import Facts
from doctor.job.job import Job, Optimizer
from doctor.job.run_options import RunOptions
from doctor.judge.check import Finding
from doctor.report.report import FailOn, Report

__all__ = ["Facts", "Finding", "Report", "UserError"]

Names = str | Iterable[str]
Paths = str | Path | Iterable[str | Path]


class Settings(TypedDict, total=False):
    """The job and how it is examined: the flags of `doctor run`, which docs/run.md describes."""

    device: Literal["auto", "cuda", "cpu", "mps"]
    precision: Literal["auto", "bf16", "fp16", "fp32"]
    recipe: Literal["amp", "pure-bf16"]
    python: str
    hf: str
    lora: int
    compile: bool
    gpus: int
    params: int | str
    """A number, or a text such as "8B"."""
    trainable: int | str
    shards: int
    optimizer: Optimizer
    checkpointing: bool
    batch_size: int
    seq_len: int
    attention: tuple[int, int, int, int]
    model: str
    arguments: tuple[str, ...]
    layers: int
    weights: bool
    data: str
    expect_no_grad: tuple[str, ...]
    checkpoint: str
    output_dir: str
    cache_dir: str
    keep: int
    smoke: bool
    probes: bool
    quick: bool
    memory_test: bool
    rehearse: bool
    ranks: int
    budget: float


PARAMETERS = {*Settings.__annotations__, "only", "skip", "config", "fail_on", "facts"} | {
    *("baseline", "deep", "tensors", "format", "redact")
}
FLAG = re.compile(r"(?<![\w-])--(?P<no>no-)?(?P<name>[a-z][a-z-]*[a-z])")


class NotReadyError(RuntimeError):
    """A machine is not ready for the training; `report` says why."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.verdict_line)
        self.report = report


def run(
    *,
    only: Names = (),
    skip: Names = (),
    config: str | Path | None = None,
    fail_on: FailOn = "fail",
    **settings: Unpack[Settings],
) -> Report:
    """Examine this machine for a job, as `doctor run` does. Raises UserError.

    `only` and `skip` are codes, slugs or families. `config` is a job file; None reads none. The
    examination takes seconds to a minute and starts processes; it needs `quick=True` or
    `smoke=False` where the GPUs are busy. GPU memory that this process holds is not foreign.
    """
    from doctor.cli.run import run as run_command

    flags = _flags(settings) | _selection(only, skip)
    with _called("run"):
        return run_command(flags, _config(config), fail_on=fail_on, held=_held_memory())


def collect(*, config: str | Path | None = None, **settings: Unpack[Settings]) -> Facts:
    """Examine this machine without judging it. Raises UserError."""
    from doctor.catalog import MACHINE_CHECKS
    from doctor.cli.examine import collect_facts
    from doctor.cli.inputs import resolve

    with _called("collect"):
        request = resolve(_flags(settings), _config(config), None, MACHINE_CHECKS).request
        return collect_facts(request, progress=False, held=_held_memory())


def judge(
    facts: Facts,
    *,
    only: Names = (),
    skip: Names = (),
    config: str | Path | None = None,
    fail_on: FailOn = "fail",
) -> Report:
    """The report on facts of `collect`, or of a report, `report.facts`. Raises UserError."""
    from doctor.cli.replay import judge_facts

    with _called("judge"):
        return judge_facts(facts, _selection(only, skip), _config(config), fail_on)


def scan(
    path: str | Path,
    *,
    baseline: str | Path | None = None,
    deep: bool = False,
    tensors: bool = False,
    only: Names = (),
    skip: Names = (),
    config: str | Path | None = None,
    fail_on: FailOn = "fail",
) -> Report:
    """Examine a checkpoint, a path or an address, without executing any of it. Raises UserError.

    `deep` reads every value; `baseline` is an earlier checkpoint to compare with; with `tensors`
    the report lists every tensor.
    """
    from doctor.cli.scan import ScanOptions
    from doctor.cli.scan import scan as scan_command

    with _called("scan"):
        return scan_command(
            str(path),
            _selection(only, skip),
            _config(config),
            ScanOptions(
                baseline=None if baseline is None else str(baseline), deep=deep, tensors=tensors
            ),
            fail_on=fail_on,
            progress=False,
        )


def lint(
    paths: Paths,
    *,
    only: Names = (),
    skip: Names = (),
    fail_on: FailOn = "fail",
    facts: Facts | None = None,
) -> Report:
    """Examine training scripts, notebooks and configurations; executes nothing. Raises UserError.

    `facts` are those of the machine that the scripts run on. Everything happens in this process:
    none is forked, so that threads and a started CUDA are safe.
    """
    from doctor.cli.lint.fix import with_edits
    from doctor.cli.lint.report import lint_report
    from doctor.cli.lint.run import LintOptions, run_lint

    options = LintOptions(
        paths=_paths(paths), only=_names(only), skip=_names(skip), fail_on=fail_on, processes=1
    )
    with _called("lint"):
        result = run_lint(options, None if facts is None else facts.script_machine)
        return replace(lint_report(result, facts, ""), findings=with_edits(result))


def triage(
    paths: Paths,
    *,
    only: Names = (),
    skip: Names = (),
    config: str | Path | None = None,
    fail_on: FailOn = "fail",
) -> Report:
    """Name the first cause in the logs of a failed training. Raises UserError."""
    from doctor.cli.triage import triage as triage_command

    with _called("triage"):
        return triage_command(
            _paths(paths), _selection(only, skip), _config(config), fail_on=fail_on
        )


def render(report: Report, format: str = "plain", *, redact: bool = True) -> str:
    """The report in a format of `doctor run --format`. Raises UserError for another name.

    `redact`: without what identifies the machine's owner; tokens are always removed.
    """
    from doctor.report.formats.table import FORMATS
    from doctor.report.redaction import redact as redacted

    if format not in FORMATS:
        raise UserError(f"{format!r} is no format; formats: {', '.join(FORMATS)}")
    return FORMATS[format](redacted(report, keep_names=not redact))


@contextlib.contextmanager
def _called(function: str) -> Iterator[None]:
    """Reports name this function in place of a command line, errors its parameters in place of
    flags.
    """
    with called_from_python(f"preflight_doctor.{function}()"):
        try:
            yield
        except UserError as error:
            raise UserError(FLAG.sub(_parameter, str(error))) from None


def _parameter(flag: re.Match[str]) -> str:
    """ "--no-smoke" as "smoke=False"; what is no parameter stays."""
    name = flag["name"].replace("-", "_")
    if name not in PARAMETERS:
        return flag[0]
    return f"{name}=False" if flag["no"] else name


def _count(name: str, text: str) -> int:
    """The number that "8B" stands for. Raises UserError."""
    try:
        return parse_count(text)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None


def _flags(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of Job and RunOptions, of the types that these have. Raises TypeError, UserError."""
    unknown = sorted(set(settings) - set(Settings.__annotations__))
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
    counts = ("params", "trainable")
    values = {
        name: _count(name, value) if name in counts and isinstance(value, str) else value
        for name, value in settings.items()
    }
    flags: dict[str, Any] = {}
    for kind in (Job, RunOptions):
        given = {name: values[name] for name in kind.__struct_fields__ if name in values}
        try:
            converted = msgspec.convert(given, kind)
        except msgspec.ValidationError as error:
            text, _, field = str(error).partition(" - at `$.")
            raise UserError(f"{field.rstrip('`')}: {text}") from None
        flags |= {name: getattr(converted, name) for name in given}
    return flags


def _selection(only: Names, skip: Names) -> dict[str, tuple[str, ...]]:
    """What --only and --skip give; nothing where nothing is given."""
    given = {"only": _names(only), "skip": _names(skip)}
    return {name: names for name, names in given.items() if names}


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _config(path: str | Path | None) -> ConfigFlags:
    return ConfigFlags(no_config=True) if path is None else ConfigFlags(config=Path(path))


def _paths(paths: Paths) -> tuple[str, ...]:
    return (str(paths),) if isinstance(paths, str | Path) else tuple(map(str, paths))


def _held_memory() -> dict[str, int]:
    """Bytes that torch's allocator holds in this process, by the UUID of the GPU."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    held = {}
    for index in range(torch.cuda.device_count()):
        uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
        if uuid is not None and torch._C._cuda_hasPrimaryContext(index):
            held[f"GPU-{uuid}"] = int(torch.cuda.memory_reserved(index))
    return held

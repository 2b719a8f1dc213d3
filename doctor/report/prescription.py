"""A prescription ready to paste: text, Python, environment, Trainer and accelerate.

Text from the machine appears in one-line comments only, so that an untrusted facts file cannot put
a statement into a script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from doctor import __version__
from doctor._util.units import visible
from doctor.judge.sources import SOURCES, cite, short_section
from doctor.prescribe.context import Mode, Setting
from doctor.prescribe.forms import Form
from doctor.prescribe.loop import CLIP, WARM_UP
from doctor.prescribe.rules import subject
from doctor.report.phrases import one_line
from doctor.report.report import Outcome, Report


def render(report: Report, settings: Iterable[Setting], mode: Mode, form: Form) -> str:
    """The settings in that form, below a heading."""
    settings = tuple(settings)
    heading = [f"doctor {__version__}: settings for {_one_line(subject(report.facts))} ({mode})"]
    if report.outcome is not Outcome.READY:
        heading.append(
            f"the verdict on this machine is {report.outcome.upper()}; fix this first: "
            f"{_one_line(report.next_action)}"
        )
    if form == "text":
        return "\n".join([*heading, "", *_text(settings)])
    comments = [f"# {line}" for line in heading]
    return "\n".join([*comments, *FORMS[form](settings)])


def _one_line(text: str) -> str:
    return visible(one_line(text))


def _reason(setting: Setting) -> str:
    """ "NUM003: why [sources]"."""
    cited = ", ".join(_source(id) for id in setting.sources)
    return f"{setting.code}: {_one_line(setting.why)}" + (f" [{cited}]" if cited else "")


def _source(id: str) -> str:
    source = SOURCES[id]
    return f"{source.document} {short_section(source)}" if source.document else source.url


def _text(settings: tuple[Setting, ...]) -> Iterator[str]:
    for setting in settings:
        yield f"{setting.name}: {setting.value}"
        yield f"    {setting.code}: {_one_line(setting.why)}"
        for id in setting.sources:
            yield f"    see {cite(SOURCES[id])}"
            if SOURCES[id].correction:
                yield f"        correction: {SOURCES[id].correction}"


def _python(settings: tuple[Setting, ...]) -> Iterator[str]:
    yield "import torch"
    yield from _statements(settings)
    prepare = [setting for setting in settings if setting.prepare]
    if prepare:
        yield "\n"
        yield "def prepare(model):"
        yield '    """Call this once, before the optimizer is created."""'
        for setting in prepare:
            yield f"    # {_reason(setting)}"
            yield from (f"    {line}" for line in setting.prepare)
        yield "    return model"
    yield from _loading(settings)


def _statements(settings: tuple[Setting, ...]) -> Iterator[str]:
    for setting in settings:
        if setting.python:
            yield f"\n# {setting.name}: {setting.value}"
            yield f"# {_reason(setting)}"
            yield from setting.python


def _loading(settings: tuple[Setting, ...]) -> Iterator[str]:
    """Arguments of from_pretrained."""
    if not any(setting.load for setting in settings):
        return
    yield "\n# AutoModelForCausalLM.from_pretrained(directory, **load); before transformers 4.56,"
    yield "# dtype is called torch_dtype"
    yield "load = {"
    for setting in settings:
        for key, value in setting.load.items():
            yield f"    # {_reason(setting)}"
            yield f'    "{key}": {value},'
    yield "}"


def _env(settings: tuple[Setting, ...]) -> Iterator[str]:
    for setting in settings:
        if setting.env:
            yield f"# {setting.name}: {setting.value}"
            yield f"# {_reason(setting)}"
            yield from (f"export {line}" for line in setting.env)
    others = [setting.name for setting in settings if not setting.env]
    yield f"# set in the script, not by a variable: {', '.join(others)}; see --for python"


def _trainer(settings: tuple[Setting, ...]) -> Iterator[str]:
    yield "import torch"
    yield "from transformers import TrainingArguments"
    yield from _statements(
        tuple(each for each in settings if each.beside_trainer or not each.trainer)
    )
    yield from _loading(settings)
    yield "\narguments = TrainingArguments("
    yield '    output_dir="runs",'
    for setting in settings:
        if setting.trainer:
            yield f"    # {_reason(setting)}"
            yield from (f"    {key}={value!r}," for key, value in setting.trainer.items())
    yield ")"


def _accelerate(settings: tuple[Setting, ...]) -> Iterator[str]:
    yield "# the keys that the findings determine; merge them into your accelerate configuration"
    for setting in settings:
        if setting.accelerate:
            yield f"# {_reason(setting)}"
            yield from _yaml(setting.accelerate)


def _yaml(keys: Mapping[str, object], indent: str = "") -> Iterator[str]:
    for key, value in keys.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _yaml(value, f"{indent}  ")
        elif isinstance(value, bool):
            yield f"{indent}{key}: {str(value).lower()}"
        else:
            yield f"{indent}{key}: '{value}'"


def _loop(settings: tuple[Setting, ...]) -> Iterator[str]:
    """The python form, and a loop that uses it."""
    yield from _python(settings)
    yield LOOP.rstrip()


LOOP = '''

def train(model, optimizer, scheduler, batches, loss_of):
    """Return the number of steps that were skipped. `loss_of(model, batch)` computes the loss."""
    skipped = 0
    for step, batch in enumerate(batches):
        optimizer.zero_grad(set_to_none=True)
        with autocast:
            loss = loss_of(model, batch)
        if scaler is None:
            loss.backward()
        else:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)  # once, and before clipping
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        print(f"step {step}: loss {loss.item():.4g}, gradient norm {norm.item():.4g}")
        finite = bool(torch.isfinite(norm))
        skipped += not finite
        if scaler is not None:
            scaler.step(optimizer)  # skips the step where a gradient is not finite
            scaler.update()
        elif finite:
            optimizer.step()
        scheduler.step()
    return skipped


def warm_up(optimizer, steps=WARM_UP_STEPS):
    """A schedule that raises the learning rate to that of the optimizer; chain your own to it."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / steps))
'''.replace("MAX_NORM", f"{CLIP:g}").replace("WARM_UP_STEPS", f"{WARM_UP}")


FORMS: dict[str, Callable[[tuple[Setting, ...]], Iterator[str]]] = {
    "python": _python,
    "loop": _loop,
    "env": _env,
    "trainer": _trainer,
    "accelerate": _accelerate,
}

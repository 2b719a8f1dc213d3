"""A prescription ready to paste: text, Python, environment, Trainer and accelerate.

Text from the machine appears in one-line comments only, so that an untrusted facts file cannot put
a statement into a script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from doctor import __version__
from doctor._util.units import visible
from doctor.judge.sources import SOURCES, cite, short_section
from doctor.prescribe.context import Mode, Setting
from doctor.prescribe.rules import subject
from doctor.report.phrases import one_line
from doctor.report.report import Outcome, Report

Form = Literal["text", "python", "env", "trainer", "accelerate"]


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
    yield f"# set in the script, not by a variable: {', '.join(others)}; see --format python"


def _trainer(settings: tuple[Setting, ...]) -> Iterator[str]:
    yield "import torch"
    yield "from transformers import TrainingArguments"
    without_argument = tuple(each for each in settings if each.python and not each.trainer)
    yield from _statements(without_argument)
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


def _yaml(keys: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for key, value in keys.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _yaml(value, f"{indent}  ")
        elif isinstance(value, bool):
            yield f"{indent}{key}: {str(value).lower()}"
        else:
            yield f"{indent}{key}: '{value}'"


FORMS: dict[str, Callable[[tuple[Setting, ...]], Iterator[str]]] = {
    "python": _python,
    "env": _env,
    "trainer": _trainer,
    "accelerate": _accelerate,
}

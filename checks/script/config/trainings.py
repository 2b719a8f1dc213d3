"""Rules on settings that configurations of several trainers share."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.distributed.batch import settings
from doctor.checks.script.naming import direction
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Span

TRAINERS = ("trainer", "factory", "axolotl", "shell")
TEMPLATES = (
    (r"qwen", r"qwen|chatml|default|deepseek"), (r"llama-?3", r"llama3|llama_?3|default|deepseek"),
    (r"llama-?2", r"llama2|default"), (r"mistral|mixtral", r"mistral|default|ministral"),
    (r"gemma", r"gemma|default"), (r"phi-?[34]", r"phi|default"),
    (r"chatglm|glm-?4", r"glm|default"),
)  # fmt: skip
"""Models by their names, and the templates of LLaMA-Factory that are theirs."""


TRIAL = 50
"""Steps of a run that only tries whether all works. Our own number."""


class Options:
    """The settings of a file, or the flags of a command, by one spelling."""

    def __init__(self, table: dict[str, tuple[object, Span]]) -> None:
        self.table = table

    def span(self, *names: str) -> Span:
        return next(self.table[name][1] for name in names if name in self.table)

    def text(self, *names: str) -> str:
        """The first of these that is set, in lower case; "" where none is."""
        found = next((self.table[n][0] for n in names if n in self.table), None)
        return "" if found is None else str(found).casefold()

    def on(self, *names: str) -> bool:
        return any(self.text(name) in ("true", "1", "yes") for name in names)

    def number(self, name: str) -> float | None:
        found = self.text(name)
        return float(found) if re.fullmatch(r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?", found) else None


def options(reading: Training) -> Iterator[Options]:
    """A file of settings, or each command of a shell script that has flags of a Trainer."""
    if reading.script.kind != "shell":
        found = settings(reading)
        yield Options({key: (each.value, each.span) for key, each in found.items()})
        return
    for launch in reading.script.launches:
        span = Span(launch.line, 1, launch.line, 2)
        if {"output_dir", "per_device_train_batch_size"} & launch.arguments.keys():
            yield Options(
                {k: ("true" if v == "" else v, span) for k, v in launch.arguments.items()}
            )


def contradict(reading: Training) -> Iterator[Match]:
    for each in options(reading):
        yield from _best(each)
        yield from _schedule(each)
        yield from _precision(each, reading.script.kind)
        if reading.script.kind == "axolotl":
            yield from _of_axolotl(each)
        elif reading.script.kind == "factory":
            yield from _of_factory(each)


def _best(each: Options) -> Iterator[Match]:
    """The best checkpoint of a run, and by what it is chosen."""
    evaluated, saved = each.text("eval_strategy", "evaluation_strategy"), each.text("save_strategy")
    if each.on("load_best_model_at_end"):
        where = each.span("load_best_model_at_end")
        given = "evals_per_epoch" in each.table or "eval_steps" in each.table
        if evaluated in ("", "no") and not given:
            yield Match(where, "load_best_model_at_end needs an evaluation: eval_strategy is no")
        elif evaluated and saved and saved not in (evaluated, "best"):
            yield Match(where, f"saved every {saved}, evaluated every {evaluated}")
        steps, rounds = each.number("save_steps"), each.number("eval_steps")
        if evaluated == "steps" and steps and rounds and steps >= 1 and steps % rounds:
            yield Match(where, f"saved every {steps:g} steps, evaluated every {rounds:g}")
    metric, greater = each.text("metric_for_best_model"), each.text("greater_is_better")
    better = direction(metric) if metric else 0
    if better and greater in ("true", "false") and (greater == "true") != (better > 0):
        yield Match(
            each.span("greater_is_better"), f"greater_is_better: {greater} keeps the worst {metric}"
        )


def _schedule(each: Options) -> Iterator[Match]:
    warm, whole = each.number("warmup_steps"), each.number("max_steps")
    if warm and whole and TRIAL < whole <= warm:
        yield Match(
            each.span("warmup_steps"),
            f"{warm:g} of {whole:g} steps warm up: the rate is never reached",
        )
    yield from _ends_early(each, whole or 0)
    ratio = each.number("warmup_ratio")
    if ratio is not None and ratio >= 1:
        yield Match(each.span("warmup_ratio"), f"warmup_ratio is {ratio:g}: it is a part of 1")
    kind = each.text("lr_scheduler_type", "lr_scheduler")
    if kind == "constant" and (warm or ratio):
        yield Match(
            each.span("warmup_steps", "warmup_ratio"),
            "the schedule constant has no warm-up: constant_with_warmup has",
            "warn",
        )
    if warm and ratio and each.span("warmup_steps") != each.span("warmup_ratio"):
        yield Match(each.span("warmup_ratio"), "warmup_steps and warmup_ratio are both set", "warn")


def _ends_early(each: Options, whole: float) -> Iterator[Match]:
    """max_steps, which overrides num_train_epochs, is below the first evaluation."""
    evaluated = each.text("eval_strategy", "evaluation_strategy")
    if whole <= TRIAL or not each.number("num_train_epochs") or evaluated != "steps":
        return
    rounds = each.number("eval_steps") or 0
    if rounds > whole:
        message = f"max_steps: {whole:g} overrides num_train_epochs, before the first evaluation"
        message += f", of step {rounds:g}"
        loads = each.on("load_best_model_at_end")
        yield Match(each.span("max_steps"), message, None if loads else "warn")


def _precision(each: Options, kind: str) -> Iterator[Match]:
    if kind == "shell" and each.on("fp16") and each.on("bf16"):
        yield Match(each.span("fp16"), "fp16 and bf16 are both on")
    if each.on("load_in_8bit") and each.on("load_in_4bit"):
        yield Match(each.span("load_in_8bit"), "load_in_8bit and load_in_4bit are both on")


def _of_axolotl(each: Options) -> Iterator[Match]:
    """What the validation of axolotl refuses."""
    adapter, quantized = each.text("adapter"), ("load_in_4bit", "load_in_8bit")
    if adapter == "qlora" and not each.on("load_in_4bit") and "gptq" not in each.table:
        yield Match(each.span("adapter"), "qlora needs load_in_4bit: true")
    elif adapter in ("", "none") and each.on(*quantized):
        yield Match(each.span(*quantized), "quantized weights do not train, and no adapter is set")
    for one, other in (("save_steps", "saves_per_epoch"), ("eval_steps", "evals_per_epoch")):
        if each.number(one) and each.number(other):
            yield Match(each.span(one), f"{one} and {other} exclude each other")
    attention = ("flash_attention", "xformers_attention", "sdp_attention", "flex_attention",
                 "attn_implementation")  # fmt: skip
    if each.on("sample_packing") and not any(each.text(a) not in ("", "false") for a in attention):
        yield Match(
            each.span("sample_packing"),
            "packed samples attend to each other without flash_attention",
            "warn",
        )


def _of_factory(each: Options) -> Iterator[Match]:
    """What LLaMA-Factory refuses, and templates of other models."""
    kind, stage = each.text("finetuning_type"), each.text("stage")
    if kind in ("full", "freeze") and each.number("quantization_bit"):
        yield Match(each.span("quantization_bit"), f"quantized weights do not train: {kind}")
    if stage == "ppo" and not each.text("reward_model"):
        yield Match(each.span("stage"), "ppo needs reward_model")
    if each.on("predict_with_generate") and stage not in ("sft", ""):
        yield Match(
            each.span("predict_with_generate"), f"predict_with_generate is for sft, not for {stage}"
        )
    evaluated = each.text("eval_strategy", "evaluation_strategy")
    if (
        evaluated in ("steps", "epoch")
        and not each.number("val_size")
        and not each.text("eval_dataset")
    ):
        yield Match(
            each.span("eval_strategy", "evaluation_strategy"),
            "there is nothing to evaluate: val_size or eval_dataset",
        )
    model, template = each.text("model_name_or_path"), each.text("template")
    for pattern, own in TEMPLATES if model and template else ():
        if re.search(pattern, model) and not re.search("base|vl|coder|audio|omni|moe", model):
            if not re.search(own, template) and ("instruct" in model or "chat" in model):
                message = f"the template {template} is not that of {model}"
                own = "Set the template of LLaMA-Factory's table of models: " + own.split("|")[0]
                yield Match(each.span("template"), message, fix=f"{own}, or one of its series.")
            break


RULES = (
    Rule(
        code="SCR364",
        slug="config-contradicts",
        title="Settings of a configuration agree",
        severity="fail",
        find=contradict,
        why="The trainer refuses the configuration when it starts, or it keeps the worst "
        "checkpoint, never reaches its rate, or renders prompts that the model does not know.",
        fires=(
            "load_best_model_at_end without an evaluation, or saved and evaluated at other times",
            "greater_is_better against the direction of the metric; warm-up as long as the run",
            "max_steps beside num_train_epochs, and below eval_steps",
            "axolotl: qlora without load_in_4bit, quantized weights without an adapter, "
            "save_steps beside saves_per_epoch",
            "LLaMA-Factory: quantization_bit of a full fine-tuning, ppo without reward_model, a "
            "template of another model, an evaluation without data",
            "the same as flags of a command",
        ),
        fix="Change one of the two settings.",
        sources=("axolotl-1834", "llama-factory-arguments", "transformers-trainer"),
        kinds=TRAINERS,
    ),
)

"""Whether adapters fit their configuration and the model that they are named for."""

from __future__ import annotations

import math
import re

from doctor._util.records import Unknown
from doctor._util.units import listed
from doctor.checkpoint.records import AdapterUse, Checkpoint, LoraFit, Merge
from doctor.checks.checkpoint.files import FIXES
from doctor.checks.checkpoint.merged import misfit, unscaled
from doctor.checks.checkpoint.norm_causes import MIN_STEPS, length_of_run
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn
from doctor.judge.combine import worst

SMALL_B = 1e-3
"""Of lora_B: at 1e-4, ten steps of Adam; at the 5e-6 of preference tuning, 200 steps."""

LEARNED = 0.8
"""Of the first loss, what no noise of a run without any update comes down to. Our own number."""

ARGUMENTS = "training_args.bin"


def adapter_agrees(checkpoint: Checkpoint) -> Verdict:
    lora = checkpoint.lora
    if lora is None and checkpoint.model.adapter == "LORA" and checkpoint.not_inspectable:
        return unknown(checkpoint.not_inspectable)
    if checkpoint.layout.endswith("PEFT adapter") and checkpoint.model.adapter is None:
        return fail("adapter_config.json is missing, or names no peft_type", fix=NO_CONFIG_FIX)
    if lora is None:
        return skip("no LoRA adapter with its configuration in these files")
    if lora.rank is None:
        return unknown("adapter_config.json names no rank r")
    return (
        _not_loaded(lora)
        or _wrong_size(lora, lora.rank)
        or _untrained(checkpoint, lora)
        or _fitting(lora)
    )


def _not_loaded(lora: LoraFit) -> Verdict | None:
    """What peft refuses, or passes over with no more than a warning."""
    if lora.empty:
        text = f"no value is in {listed(list(lora.empty), 3)}, as ZeRO-3 leaves what is divided"
        return fail(f"{text} over the ranks", fix=FIXES["empty"])
    if not lora.b_tensors:
        text = f"none of the {lora.others:,} tensors is a factor of LoRA"
        return fail(f"{text}: the file holds another model's weights", fix=NO_FACTORS_FIX)
    if lora.misnamed:
        text = f"peft passes over {lora.misnamed}: names begin with base_model.model. once, and do"
        return fail(f"{text} not name the adapter", fix=MISNAMED_FIX)
    if lora.incomplete:
        text = f"{listed(list(lora.incomplete), 2)} have one of the two factors"
        return fail(f"{text}; lora_A and lora_B required", fix=FACTORS_FIX)
    return None


def _wrong_size(lora: LoraFit, rank: int) -> Verdict | None:
    wrong = [each for each in lora.stored_ranks if int(each) not in (rank, *lora.other_ranks)]
    if wrong:
        text = f"lora_A has rank {listed(wrong, 3)}, adapter_config.json r {rank}"
        return fail(f"{text}; the same required", fix=RANK_FIX)
    if lora.alpha == 0:
        return fail("lora_alpha is 0: the adapter changes nothing", fix=ALPHA_FIX)
    return None


def _fitting(lora: LoraFit) -> Verdict:
    if lora.absent_targets or lora.strangers:
        return warn(_targets(lora), fix=TARGETS_FIX)
    if lora.unsaved:
        text = f"modules_to_save names {listed(list(lora.unsaved), 3)}, and no tensor is of them"
        return warn(f"{text}: loading takes them from the base", fix=UNSAVED_FIX)
    if lora.zero_b is None:
        return unknown(f"rank {lora.rank}; whether lora_B is zero was not read to the end")
    if lora.zero_b and not all("expert" in name for name in lora.zero_names):
        text = f"{lora.zero_b:,} of {lora.b_tensors:,} tensors lora_B are zero, as they are"
        return warn(f"{text} initialized: {listed(list(lora.zero_names), 2)}", fix=SOME_ZERO_FIX)
    if lora.foreign:
        text = f"rank {lora.rank}; all modules are called as {lora.foreign}, with a name between"
        return note(f"{text} the layer and self_attn, as a wrapper puts it there", fix=FOREIGN_FIX)
    alpha = "" if lora.alpha is None else f", alpha {lora.alpha:g}"
    return ok(f"rank {lora.rank}{alpha}, {lora.b_tensors:,} modules{_small(lora)}")


def _small(lora: LoraFit) -> str:
    """That what begins at zero is hardly above it, with the figure; "" where it is."""
    if lora.zero_b or lora.largest_b is None or not 0 < lora.largest_b < SMALL_B:
        return ""
    figure = f"{lora.largest_b:.2g}, beside 0 when initialized"
    return f"; what was read of lora_B is at most {figure}, as after few steps or at a low rate"


def _untrained(checkpoint: Checkpoint, lora: LoraFit) -> Verdict | None:
    """Whether every tensor that begins at zero still is."""
    if not lora.b_tensors or lora.zero_b != lora.b_tensors:
        return None
    zero = f"all {lora.b_tensors:,} tensors lora_B are zero, as they are initialized"
    steps = length_of_run(checkpoint)
    if steps and steps >= MIN_STEPS:
        history, after = checkpoint.training.history, f"{zero}, after {steps:,} steps"
        if history and history.losses and not (lora.others or lora.unsaved):
            first, _, last = history.losses
            if 0.0 < first < math.inf and last <= LEARNED * first:
                text = f"{after} in which the loss fell from {first:.3g} to {last:.3g}: it trained"
                text = f"{text}, and this save holds the initial values"
                return fail(text, fix=UNGATHERED_FIX)
        return fail(f"{after}: the adapter was not trained", fix=UNTRAINED_FIX)
    if steps:
        return note(f"{zero}, after {steps:,} steps; {MIN_STEPS} required for a verdict")
    text = f"{zero}; the length of the run is not recorded"
    if _shows_training(checkpoint):
        return warn(text, fix=UNTRAINED_FIX)
    return note(f"{text}, and no file of a training is beside it", fix=UNTRAINED_FIX)


def _shows_training(checkpoint: Checkpoint) -> bool:
    """Whether the files hold more of a run than weights: Trainer.save_model adds its arguments."""
    run = checkpoint.training
    return any(name.endswith(ARGUMENTS) for name in checkpoint.loading.beside) or any(
        each is not None for each in (run.steps, run.history, run.scale, run.optimizer)
    )


def _targets(lora: LoraFit) -> str:
    if lora.absent_targets:
        names = listed(list(lora.absent_targets), 3)
        return f"target_modules names {names}, of which there is no tensor"
    names = listed(list(lora.strangers), 3)
    return f"tensors of {names}, which target_modules does not name: loading leaves them out"


RANK_FIX = (
    "Take adapter_config.json from the same save as the adapter's weights: peft refuses other "
    "shapes."
)
ALPHA_FIX = "Train with lora_alpha above 0: the adapter's output is scaled by lora_alpha / r."
TARGETS_FIX = (
    "Take adapter_config.json from the same save as the adapter's weights, and list the modules "
    "that the adapter has in target_modules."
)
UNSAVED_FIX = (
    "Save the adapter again from the model that was trained, with PeftModel.save_pretrained, or "
    "take an earlier save that has these modules."
)
NO_CONFIG_FIX = (
    "Copy adapter_config.json from another save of this adapter: without it neither rank, alpha "
    "nor base are known, and peft loads nothing."
)
FOREIGN_FIX = (
    "Where the base has no module of this name, peft passes over these tensors: save the adapter "
    "again after the wrapper is taken off the layers, or rename the tensors, "
    "name.replace('.NAME.', '.'). Where it has, nothing is wrong."
)
NO_FACTORS_FIX = (
    "Save the adapter with PeftModel.save_pretrained, or move the weights of the whole model to a "
    "directory without adapter_config.json."
)
MISNAMED_FIX = (
    "Save the adapter with PeftModel.save_pretrained, or rename its tensors to "
    "base_model.model.MODULE.lora_A.weight: what is called otherwise stays at its initial zero."
)
FACTORS_FIX = "Take the adapter from an earlier save: a module with one factor does not load."
SOME_ZERO_FIX = (
    "Print lora_B.grad of these modules after backward(): nothing that the loss depends on uses "
    "them, they were left out of the optimizer, or they were added after training."
)
UNTRAINED_FIX = (
    "Check that the optimizer was created from the parameters of the model that get_peft_model "
    "returned, and print lora_B.grad after backward()."
)
UNGATHERED_FIX = (
    "Save the adapter of the model that is trained, gathered from all ranks under ZeRO-3 or FSDP: "
    "accelerator.unwrap_model(model).save_pretrained(path, "
    "state_dict=accelerator.get_state_dict(model)), with get_state_dict called on every rank. Take "
    "the weights of this run from its engine's checkpoint (zero_to_fp32.py), if there is one. If "
    "lora_B is zero in memory, too, other weights were trained: create the optimizer from the "
    "parameters of the model that get_peft_model returned."
)


def adapter_fits(checkpoint: Checkpoint) -> Verdict:
    merge = checkpoint.merge
    if merge is None:
        return skip("no --adapter")
    if isinstance(merge, Unknown):
        return unknown(f"the adapters could not be read: {merge.reason}")
    return worst(*(_fits(adapter, merge) for adapter in merge.adapters))


def _fits(adapter: AdapterUse, merge: Merge) -> Verdict:
    if adapter.unsupported:
        return unknown(f"{adapter.path}: {adapter.unsupported}")
    modules = f"{adapter.path}: {adapter.method}, {adapter.modules:,} modules"
    if adapter.incomplete:
        return fail(f"{modules}; {listed(list(adapter.incomplete), 2)} lack a factor", fix=FIT_FIX)
    if adapter.misfit_count or adapter.unmatched_count:
        return fail(f"{modules}; {misfit(adapter)}", fix=FIT_FIX)
    if not adapter.modules:
        return unknown(f"{adapter.path}: no pair of factors is in its tensors")
    if adapter.unscaled:
        return unknown(f"{modules}; {unscaled(adapter)}")
    if adapter.zero == adapter.modules:
        return fail(f"{modules}; every product is zero: it changes nothing", fix=ZERO_FIX)
    if adapter.zero:
        return warn(f"{modules}; {adapter.zero:,} of the products are zero", fix=ZERO_FIX)
    base = f", trained on {adapter.base}" if adapter.base else ""
    return _other_base(adapter, merge, modules) or ok(f"{modules} of the model's shapes{base}")


def _other_base(adapter: AdapterUse, merge: Merge, modules: str) -> Verdict | None:
    """Names of the Hub, and commits, that differ. A model's own config.json may name its parent."""
    names = (adapter.base, merge.base_name)
    if not all(HUB_NAME.fullmatch(name) for name in names):
        return None
    text = f"{modules}; trained on {adapter.base}, and the model is {merge.base_name}"
    if names[0].casefold() != names[1].casefold():
        if merge.base_revision:
            return warn(text, fix=FIT_FIX)
        return note(f"{text} by its config.json, or was made from it", fix=FIT_FIX)
    commits = (adapter.revision, merge.base_revision)
    if all(COMMIT.fullmatch(commit) for commit in commits) and commits[0] != commits[1]:
        return warn(f"{text} of commit {commits[1][:12]}, not {commits[0][:12]}", fix=FIT_FIX)
    return None


HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
COMMIT = re.compile(r"[0-9a-f]{40}")

FIT_FIX = (
    "Name the base that the adapter was trained on: base_model_name_or_path and revision of "
    "adapter_config.json."
)
ZERO_FIX = (
    "Check that the adapter was saved after training, from the model that get_peft_model returned: "
    "one of its two factors begins at zero, and a product of zero changes nothing."
)

ADAPTER = Check(
    code="CKP013",
    slug="adapter-agrees",
    title="The LoRA adapter fits its configuration and was trained",
    why="peft builds the adapter from adapter_config.json: another rank fails, tensors of modules "
    "that it does not name are left out, and an alpha of 0 turns the adapter off. lora_B is "
    "initialized to zero, so an adapter whose lora_B are all zero never trained.",
    passes=("rank and target modules are those of the tensors, and some lora_B is not zero",),
    notes=(
        "every lora_B is zero after fewer than 10 steps",
        "every lora_B is zero, and no file shows that it was trained",
        "in all modules a name lies between the layer and self_attn, as of a wrapper",
    ),
    warns=(
        "target_modules names modules without tensors, or tensors lie in others",
        "modules_to_save names modules, and the files hold none of them",
        "every lora_B is zero beside training_args.bin or other files of a run whose length is "
        "not recorded; or some are",
    ),
    fails=(
        "the rank of a tensor is not that of adapter_config.json",
        "lora_alpha is 0",
        "a tensor holds no value",
        "adapter_config.json is missing",
        "every lora_B is zero after 10 or more steps, whether or not the loss fell in them",
        "no tensor is a factor of LoRA, a module lacks one, or peft does not look for their names",
    ),
    fix=TARGETS_FIX,
    limits="that the base model is the one that the adapter was trained on.",
    owner=Owner.JOB,
    judge=adapter_agrees,
    required="checkpoint",
    sources=("peft-793",),
    after=("CKP001",),
)

FITS = Check(
    code="CKP017",
    slug="adapter-fits-model",
    title="The adapters fit the model",
    why="peft creates an adapter's modules by the names of the model's: on another model loading "
    "fails late or leaves modules out, and a product that is zero loads without changing anything.",
    passes=("each module of the adapters has a weight of the model, of the product's shape",),
    notes=("config.json of the model names another model than the adapter's base",),
    warns=(
        "some products are zero",
        "the model in the Hub's cache is of another name or commit than the adapter's base",
    ),
    fails=(
        "a module is of no weight of the model, or its product has another shape",
        "a module lacks one of its factors",
        "every product is zero",
    ),
    fix=FIT_FIX,
    limits="that the model has the values that the adapter was trained on.",
    owner=Owner.JOB,
    judge=adapter_fits,
    required="checkpoint",
    sources=("peft-lora",),
    after=("CKP001",),
)

CHECKS = (ADAPTER, FITS)

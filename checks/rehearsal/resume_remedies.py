"""What brings back a state that a resume lost."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor.facts.rehearsal_resume import Lost, Resumed

ADAPTER = re.compile(r"(?:^|\.)(?:lora_|modules_to_save\.|ia3_|vera_|prompt_encoder\.)")
"""In the names of weights of adapters."""

STOPS = re.compile(
    r"^\w*(?:early_?stop|patience)|(?<![a-z])(?:patience_\w+|num_bad\w*|bad_epochs|no_improve\w*"
    r"|wait_count)",
    re.IGNORECASE,
)
"""In names of what counts for how long a result has not improved."""
ATTRIBUTE_FIX = (
    "Register them as buffers, self.register_buffer(name, torch.tensor(0.0)), and change them in "
    "place, or save and load them with the step: plain attributes are in no state_dict() "
    "(on_save_checkpoint and on_load_checkpoint in Lightning, state_dict() of an object of your "
    "own with register_for_checkpointing in accelerate)."
)
ROUNDED_FIX = (
    "Save the weights in the dtype that they are trained in; write a copy of fewer bits, for "
    "inference, into a file of its own."
)
REFERENCE_FIX = (
    "Make what no step changes (the reference of DPO, a teacher) from the same file as at the "
    "first start, before the training's checkpoint is loaded into the trained model: a script that "
    "makes the model from the last checkpoint makes its reference from it, too. Or save it."
)
LOOSE_FIX = (
    "Save and load it with the step, tensor.copy_(saved) under torch.no_grad() before the first "
    "step, or make it an nn.Parameter of a module: a tensor that an optimizer trains is in no "
    "state_dict() of its own, and the optimizer's has its moments alone."
)
STOP_FIX = (
    "Save the best result and the count of evaluations without a better one with the step, and "
    "load them: with each resume the training waits from the beginning. transformers: "
    "TrainingArguments(restore_callback_states_from_checkpoint=True)."
)
NUMBER_FIX = (
    "Compute it from the number of the step, which is restored, or save and load with the step "
    "what it is computed from: a counter of an object, or a variable, is in no state_dict()."
)
AVERAGE_FIX = (
    "Save the state of the average (an AveragedModel's own, not that of its module), or of the "
    "other module, with each checkpoint, and load it before the first step: one that a callback "
    "or a wrapper keeps is in no checkpoint unless it has on_save and a load of its own, and is "
    "made as a copy of the resumed weights. Load it after it is made, so that the copy does not "
    "replace it."
)
FROZEN_FIX = (
    "Set requires_grad as at the first start when the state is loaded: "
    "PeftModel.from_pretrained(model, path, is_trainable=True), as an adapter is loaded frozen "
    "without it."
)
ORDER_FIX = (
    "Create the parameters and the groups in one order in each start: load_state_dict() gives each "
    "state to the parameter in its place. A set of names has another order in each process: "
    "sorted(names)."
)
SCALER_FIX = (
    "Save scaler.state_dict() beside the optimizer's state, and scaler.load_state_dict() it before "
    "the first step into the scaler that takes the steps, not one that is replaced after it: a "
    "scale that begins anew skips steps until it has adapted."
)
ADAPTER_FIX = (
    "Load the saved adapter in place of making a new one: "
    "PeftModel.from_pretrained(base, directory, is_trainable=True) where one is there and "
    "get_peft_model() at the first start alone, before the optimizer is made."
)
BESIDE_ADAPTER_FIX = (
    "Name the layers that are trained beside the adapter in its configuration, "
    "LoraConfig(modules_to_save=['classifier']): what is saved of an adapter is the adapter and "
    "these, and not a weight of the base model whose requires_grad was set by hand."
)
IN_PEFT = "base_model.model."
"""Begins the names of what peft wraps."""
LEFT_OUT_FIX = (
    "At a resume load all weights, with strict=True. Where the script leaves keys out of what it "
    "loads, as of a head for other classes, or makes the module anew after the load, let it do so "
    "only at the first start from another model. Where the file lacks them, save the state_dict() "
    "of the whole model, and not of a part of it."
)
STRICT_FIX = "Load with strict=True: what is missing is an error then."
UNSAVED_FIX = (
    "Save model.state_dict(), which has the buffers, as named_parameters() has not, and load it "
    "with strict=True, after whatever resets them (reset_running_stats())."
)
REPLACED_FIX = (
    "Load into the weights that are there (model.load_state_dict() without assign=True), and "
    "neither assign new parameters nor make the model anew after the optimizer has taken them; "
    "else make the optimizer after that, and load its state then."
)
OWN_RATE_FIX = (
    "No schedule of torch sets this rate: save and load the number that the script computes it "
    "from (step, epoch, tokens), and begin the loop with it; one that is set once comes back with "
    "the optimizer's state. accelerate: accelerator.register_for_checkpointing(schedule)."
)
PLATEAU_FIX = (
    "Save scheduler.state_dict() with each checkpoint, and load it: without it the rate is lowered "
    "later after each resume, and never where stops are more frequent than its patience."
)
AHEAD_FIX = (
    "Load the schedule's state, or step it as often as was trained, not both: load_state_dict() "
    "brings the count with it, and so does last_epoch=. A step() before the first step of the "
    "optimizer is one too many, too."
)
UNTIED_FIX = (
    "Load with model.load_state_dict() into the tied model, which keeps them one, or tie them "
    "again before the optimizer is made: model.tie_weights(), head.weight = embedding.weight."
)
NOT_LOADED = (
    "The checkpoints have an optimizer's state: load it, optimizer.load_state_dict(), into the "
    "optimizer that takes the steps, after it is made and before the first step."
)
NOT_FILLED = (
    f"{NOT_LOADED} torch.distributed.checkpoint fills in what the state that it is given has, and "
    "that of a new optimizer is empty: take it from get_state_dict() or "
    "get_optimizer_state_dict(), which create it, and give it to set_state_dict()."
)
NOT_SAVED = (
    "No checkpoint has an optimizer's state: save optimizer.state_dict(), and scaler.state_dict(), "
    "beside the weights (save_only_model=False in transformers, save_weights_only=False in "
    "Lightning), and load them before the first step."
)
OWN_PART = (
    "Let each rank load what it has saved itself, with its rank in the file's name at the load as "
    "at the save, or save and load with torch.distributed.checkpoint: rank 0 has its own state "
    "again, and other ranks have not."
)
OF_EACH_RANK = (
    "Save the state of samplers and random generators of each rank, in a file of its own or "
    "gathered in a list, and load each rank's own: what one rank saved is loaded by all."
)
POSITION = (
    "Save the position in the epoch and the state of the sampler's generator, and go on from there "
    "(StatefulDataLoader, accelerator.skip_first_batches, set_epoch)."
)
LOAD_POSITION = (
    "Load the position before the iterator is made: iter(loader), and next() of a generator, begin "
    "where the dataset is then, and workers have a copy of it. A state that is loaded later is for "
    "the next iterator."
)
STREAM = (
    "Save how far the data are read, and go on from there: state_dict() of StatefulDataLoader or "
    "of a streaming dataset, or skip the batches that are done. Where batches are drawn at random, "
    "save torch.get_rng_state() and the generators' states and set them, or seed with the step."
)
UNPREPARED_FIX = (
    "Call accelerator.load_state() after accelerator.prepare(): it restores the models, optimizers "
    "and schedulers that are prepared then, and without any nothing but random states."
)
UNREAD = (
    "Pass the setting on: it is given, and nothing resumes. trainer.train() of transformers "
    "resumes with its own argument alone, trainer.train(resume_from_checkpoint=True); in a loop of "
    "your own, look for the newest checkpoint in {output} and load it."
)
NAME_FIX = (
    "Build the path of the checkpoint in one place, a function or a variable, for the save and for "
    "the load: when it resumes, there is no file by the name that the load looks for. If it holds "
    "something else, such as the optimizer's state, save that, too."
)
BEST_FIX = (
    "Save the best result so far with the step, and load it: one that begins anew lets the first "
    "evaluation after each resume overwrite the best model."
)
STEP_FIX = (
    "Save the step and start the loop there. A trainer that only gets the weights begins its "
    "count, optimizer and schedule anew: give it the checkpoint, "
    "trainer.train(resume_from_checkpoint=...) of transformers, trainer.fit(..., ckpt_path=...) of "
    "Lightning. The end stays where it was: range(start, epochs), not range(start, start + epochs)."
)
TOO_FAR_FIX = (
    "Begin the loop at the step or epoch that comes next, and count to the same end, range(start, "
    "epochs): a start that is moved on by one more, or taken off the end as well, leaves out what "
    "was never trained."
)
REST_FIX = (
    "Nothing, if the training is meant to begin the next epoch after a stop. Else go on within the "
    "epoch, skipping the batches that are done, or save at the end of epochs alone."
)
EPOCH_FIX = (
    "If the checkpoint has the number of the epoch, save that of the next one, epoch + 1: at the "
    "end of the first, epoch is 0 still. "
)
HANDLER_STEP_FIX = (
    "The state was saved on the signal: save the number of the step at that moment with it, an "
    "attribute or a global that the loop sets, and not a default argument or a variable that has "
    "the number from when the handler was made, or of the epoch's begin; and start the loop there."
)
LATEST_FIX = (
    "Resume from the newest checkpoint, and keep the best result for what comes after the "
    "training: each stop loses the steps since it was the best. Nothing, if that is meant."
)


def anew_fix(lost: Sequence[Lost]) -> str:
    """The remedy for numbers and tensors in attributes and variables."""
    names = [name for each in lost if each.kind == "attribute" for name in each.names]
    if not names:
        return NUMBER_FIX
    return STOP_FIX if all(map(STOPS.search, names)) else ATTRIBUTE_FIX


def _adapter_fix(names: Sequence[str]) -> str:
    """The remedy for weights of an adapter, or for those that are trained beside one."""
    if all(map(ADAPTER.search, names)):
        return ADAPTER_FIX
    return BESIDE_ADAPTER_FIX if all(name.startswith(IN_PEFT) for name in names) else ""


def weights_fix(found: Resumed, own: Sequence[Lost]) -> str | None:
    """The remedy for weights and buffers of the trained model; None where nothing shows more."""
    fresh = [each for each in own if each.kind == "weights" and each.fresh]
    if all(each.kind == "loose" for each in own):
        return LOOSE_FIX
    if all(each.kind == "buffers" and each.fresh for each in own):
        return UNSAVED_FIX
    if fresh and (fix := _adapter_fix([name for each in fresh for name in each.names])):
        return fix
    if found.prefix:
        return (
            f"The keys differ by the prefix {found.prefix!r}: save the unwrapped module's state "
            "(model._orig_mod, model.module), and load it with strict=True."
        )
    if found.narrow and any(each.kind == "weights" for each in own):
        return ROUNDED_FIX
    if any(each.kind == "untied" for each in own):
        return UNTIED_FIX
    others = [each for each in own if each.kind != "weights"]
    if not found.extra_keys and not others and all(each.count < each.of for each in own):
        return LEFT_OUT_FIX
    return STRICT_FIX if found.missed_keys else None

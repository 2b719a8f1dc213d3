"""The remedy of each cause, for rules that find several: of settings, loops and data.

The key is a part of the message; `{name}` is the message's first word. What is not here has the
remedy of its match, else that of its rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from doctor.checks.script.remedies_of_formulas import FORMULAS

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "SCR208": {
        "Lightning steps": 'Return {"optimizer": optimizer, "lr_scheduler": {"scheduler": '
        'scheduler, "interval": "step"}}.',
        "as long as the epochs": "Give it epochs * len(loader), or step it once per epoch.",
        "in epochs, and steps in every batch": "Step it once per epoch, or count in batches.",
        "epochs long, and steps in every batch": "Step it once per epoch.",
        "once per epoch": "Step it after each optimizer.step().",
        "it never ends": "Divide its length by the number of batches of a step.",
        "made for the optimizer's steps": "Call step() directly behind optimizer.step(), in the "
        "same branch.",
        "that one step sums up": "Call step() behind the inner loop, after optimizer.step().",
    },
    "SCR227": {
        "eta_min": "Set eta_min below lr.",
        "factor=": "Set factor below 1.",
        "gamma=0": "Set gamma above 0, 0.1 for example.",
        "the rate grow": "Set gamma below 1.",
        "initial_lr": "Omit last_epoch, or load the state of optimizer and scheduler.",
        "mode=min waits": 'Pass mode="max".',
        "mode=max waits": 'Pass mode="min".',
        "made anew": "Make the scheduler before the loop.",
        "nothing counts it": "Add 1 to it in each step.",
        "the first milestone": "Set milestones below the number of epochs.",
        "the warm-up of": "Shorten the warm-up.",
    },
    "SCR262": {
        "chooses the checkpoint, and": "Choose the checkpoint on a validation set; read the test "
        "set once, at the end.",
        "and validation is at hand": "Use the score of the validation set.",
        "they share a dataset": "Make the dataset twice, each with its transform, and use "
        "torch.utils.data.Subset with the indices of each part.",
        "is the whole data and not the part": "Use the part itself, without .dataset.",
        "changes at random": "Make the dataset twice, the second without random transforms, and "
        "use Subset with the indices of validation.",
        "which trains the model": "Give each loader its own part.",
        ", and not ": "Pass the part to the loader.",
        "begins ": "Begin the second part where the first ends.",
    },
    "SCR265": {
        "is in nats": "Take its exp().",
        "of the last batch alone": "Collect predictions and labels in the loop; compute the score "
        "of all of them after it.",
        "of single batches is averaged": "Collect predictions and labels in the loop; compute the "
        "score of all of them after it.",
        "perplexit": "Average the losses, and take the exponential of their mean.",
        "roots of batches": "Average the squared errors, and take the root of their mean.",
    },
    "SCR267": {
        "starts where no accuracy": 'Start it at 0, or at float("-inf").',
        "keeps the highest": "Compare with <.",
        "keeps the lowest": "Compare with >.",
    },
    "SCR274": {
        "DataCollatorWithPadding": "Use DataCollatorForSeq2Seq(tokenizer), which pads labels with "
        "-100.",
        "needs metric_for_best_model": "Pass load_best_model_at_end=True and "
        'metric_for_best_model="eval_loss", and set save_strategy as eval_strategy.',
        "eval_strategy is no": "Set eval_strategy, and save_strategy alike.",
        "max_steps is missing": "Pass max_steps.",
        "predict_with_generate is off": "Pass predict_with_generate=True.",
        "takes the function itself": "Pass the function without parentheses.",
        "is one split already": "Use it without an index.",
        ": never": "Set eval_steps below max_steps.",
        "greater_is_better=False keeps": "Pass greater_is_better=True.",
        "greater_is_better=True keeps": "Pass greater_is_better=False.",
        "saved every steps, evaluated": "Set save_strategy as eval_strategy.",
        "saved every epoch, evaluated": "Set save_strategy as eval_strategy.",
        "saved every no, evaluated": "Set save_strategy as eval_strategy.",
        "at_end: saved every": "Set save_steps to a multiple of eval_steps.",
        "is its own reference": "Omit ref_model: the trainer makes its own reference.",
        "the warm-up of": "Set warmup_steps far below max_steps.",
        "train() does not read": "Pass resume_from_checkpoint to train().",
        "warmup_ratio is a share": "Pass a number of steps as warmup_steps.",
        "returns a number": 'Return a dictionary: {"score": value}.',
        "compute_metrics returns no": "Set metric_for_best_model to a key that compute_metrics "
        "returns.",
    },
    "SCR275": {
        "inference_mode=True": "Omit inference_mode.",
        "is quantized and has no adapters": "Call prepare_model_for_kbit_training(), then "
        "get_peft_model().",
        "is_trainable is False": "Pass is_trainable=True.",
        "with the rest of it": "Freeze the model before get_peft_model().",
        "are frozen here": "Call prepare_model_for_kbit_training() before get_peft_model().",
    },
    "SCR280": {
        "keeps the max of": 'Pass mode="min".',
        "keeps the min of": 'Pass mode="max".',
        "makes steps by hand": "Set self.automatic_optimization = False in __init__.",
        "by hand only": "Set self.automatic_optimization = False in __init__, and step each "
        "optimizer in training_step.",
        "without the key loss": 'Return {"loss": loss, ...}.',
        "returns nothing": "Return the loss.",
        "no gradient is left": "Return the loss as it was computed.",
        "propagates the returned loss": "Remove this call, and return the loss.",
        "before the backward() of": "Give the Trainer gradient_clip_val, or clip in "
        "on_before_optimizer_step(self, optimizer).",
        "Lightning calls": "Rename it to the name that Lightning calls.",
    },
    "SCR296": {
        "stops by": "Average the score over all processes, with all_reduce or reduce(), before "
        "the comparison.",
        "fill up the last batch": "Use accelerator.gather_for_metrics().",
        "counts the share": "Add up the counts of all processes, by all_reduce or reduce().",
        "sees the share": "Gather predictions and labels of all processes first; with accelerate "
        "by gather_for_metrics().",
    },
    "SCR309": {
        "is what stays of the average": "Multiply the average by it, and the new weights by 1 "
        "minus it.",
        "is the model of this step": "Make the copy once, before the loop.",
        "binds the loop's name": "Write into the tensor, with copy_(), mul_() and add_().",
        "statistics of batch norm": "Copy the buffers(), too.",
        "is replaced in each step": "Keep the decay's part of the average, and add 1 - decay of "
        "the new weights.",
        "is never called": "Call it after every optimizer.step().",
        "is copied once": "Copy the weights again every N steps, or average them after each step.",
        "the training goes on from it": "Restore the weights after the evaluation.",
    },
    "SCR325": {
        "steps once per process": "Multiply the length by accelerator.num_processes.",
    },
    "SCR341": {
        "all targets are 0": "Use torch.arange(n) as targets.",
        "diagonal is not masked": "Fill the diagonal with -inf.",
        "along the batch": "Normalize along dim=-1.",
        "rank's offset": "Add rank * batch size to the labels.",
        "is a logarithm": "Multiply by its exp().",
        "the sample itself": "Fill the diagonal before the nearest are taken.",
    },
    "SCR342": {
        "compared with itself": "Compare the student's logits with the teacher's.",
        "copy it": "Use copy.deepcopy(student).",
        "not divided by the temperature": "Divide the logits of both by the temperature.",
    },
    "SCR347": {
        "divided again": "Omit one of the divisions by 255.",
        "reads blue first": "Call cv2.cvtColor(image, cv2.COLOR_BGR2RGB).",
        "ends in tanh": "Normalize the real images with mean 0.5 and std 0.5.",
        "statistics of 0 to 255": "Divide the mean and std of Normalize by 255.",
        "which images for training get": "Add it to {name}.",
        "than training": "Use the numbers of the training's Normalize.",
        "permute(2, 0, 1)": "Use permute(2, 0, 1).",
    },
    "SCR368": {
        "without an activation": "Put an activation such as nn.ReLU() between them.",
        "BatchNorm1d of one": "Use a batch_size of two or more.",
        "labels of 1 and -1": "Pass 2 * labels - 1.",
        "a Dropout behind": "Omit the Dropout.",
        "momentum is first": "Exchange the two betas.",
        "receives logits": "Take the sigmoid, or the softmax, first.",
        "through a ReLU": "Omit the ReLU behind the last layer.",
        "takes floats": "Use float() in place of long().",
        "counts masked places": "Use (loss * mask).sum() / mask.sum().",
    },
    "SCR369": {
        "all weights of": "Keep the default, or use xavier_uniform_; zero biases only.",
    },
    "SCR370": {
        "the model takes two corners": "boxes[:, 2:] += boxes[:, :2].",
        "this metric takes two corners": 'Pass box_format="xywh".',
        "and its boxes stay": "Change the boxes as the image, too.",
        "and its mask stays": "Apply it to the mask, too.",
        "left and right of": "Exchange the points of the left and right side, too.",
        "the left edge": "Use width - boxes[:, [2, 0]].",
        "replaced by the line before": "Compute both edges from a copy.",
    },
    "SCR371": {
        "has no layers": 'Name layers that the model has, or pass target_modules="all-linear".',
        "task_type is": 'Pass the task_type of the model: "SEQ_CLS" for a classifier.',
    },
    "SCR375": {
        "carries gradients of the value": "Detach the value: (returns - value).detach().",
        "is the share of": "Draw a random action where random() < {name}.",
        "nearly all actions": "Lower it in each episode, to 0.05 for example.",
        "is never set to": "Assign the next state at the end of each step.",
    },
    "SCR376": {
        "is in a feature": "Compute it of the training rows alone.",
        "changed copies": "Split first; change copies of the training part.",
        "it is fitted to": "Fit it to the training part; transform the others.",
        "made before the folds": "Make the model in the loop over the folds.",
        "the loss counts all nodes": "Use loss(out[data.train_mask], data.y[data.train_mask]).",
    },
    "SCR377": {
        "behind the padding": "Use pack_padded_sequence, or out[range(n), lengths - 1].",
        "padding counts in the mean": "Divide the sum of what the mask keeps by mask.sum().",
        "ignore_index is not set": "Pass padding_value=-100 for the targets, or ignore_index.",
    },
    "SCR379": {
        "reset() is missing": "Call {name}.reset() after compute().",
        "of all processes, len(": "Divide by a count that all_reduce() adds up, too.",
        "sum of all processes' means": "Divide it by the number of processes.",
    },
    "SCR385": {
        "needs monitor": 'Return {"optimizer": o, "lr_scheduler": {"scheduler": s, "monitor": '
        '"val_loss"}}.',
        "fast_dev_run": "Remove fast_dev_run.",
        "gets a new": "Pass the fitted model, or ckpt_path='best'.",
    },
    "SCR391": {
        "== 0 is missing": "Add == 0.",
        "iter() starts anew": "Use for batch in loader, or make one iterator before the loop.",
    },
    "SCR394": {
        "the prompt is decoded": "Decode out[:, inputs['input_ids'].shape[1]:].",
        "has no effect": "Pass do_sample=True, or omit {name}.",
    },
    "SCR396": {
        "its head is fc": "Assign nn.Linear(model.fc.in_features, n) to model.fc.",
        "its head is classifier": "Assign the new layer to model.classifier, or its last part.",
        "the last layer of": "Take in_features of the layer that is replaced.",
    },
    "SCR398": {
        "lengths are on the GPU": "Pass lengths.cpu().",
        "not sorted": "Pass enforce_sorted=False.",
        "the time": "Pass batch_first=True.",
        "is one direction": "Use torch.cat([h[-2], h[-1]], 1).",
        "number of samples": "Use self.pe[:, :x.size(1)].",
    },
    "SCR399": {
        "CUDA_VISIBLE_DEVICES": "Set CUDA_VISIBLE_DEVICES before torch is imported.",
        "autocast is of the CPU": 'Use torch.autocast("cuda").',
        "CUBLAS_WORKSPACE_CONFIG": 'Set os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8" before '
        "the first use of CUDA.",
    },
    "SCR403": {
        "classes are the last axis": "Use argmax(-1).",
        "argmax(-1) is missing": "Use predictions.argmax(-1).",
        "their places are these": "Use argmax(1), the places, not the values of max().",
        "+= adds them up": "Use += for {name}.",
    },
    "SCR408": {
        "one list several times": "Use [[] for _ in range(n)].",
        "adds a hook": "Register the hook once, before the loop, or remove() it.",
        "empties it there": "Append a copy: list(...).",
    },
    "SCR411": {
        "only the last one has an effect": "Assign what each layer returns: x = layer(x).",
        "an axis of one entry": "Take the softmax over the axis of the places, for example dim=1.",
        "nothing reads it": "Give the next layer {name}.",
    },
    "SCR437": {
        "are exchanged": "Exchange the two betas.",
        "weight_decay": "Use a weight_decay of 0 to 0.1.",
    },
    "SCR438": {
        "does not assign": "Assign it in that branch, too, or read it where it is assigned.",
        "is not assigned: NameError": "Assign it before the condition, or read it under it.",
    },
}
REMEDIES = {**SETTINGS, **FORMULAS}


def remedy_of(code: str, message: str) -> str:
    """The remedy of the first part that the message has, "" where the table has none."""
    found = (fix for part, fix in REMEDIES.get(code, {}).items() if part in message)
    return next(found, "").replace("{name}", message.partition(" ")[0])

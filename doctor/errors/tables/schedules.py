"""Learning rates, schedules and settings of optimizers."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="optimizer-arguments",
        errors=("ValueError", "RuntimeError", "AssertionError", "TypeError", "KeyError"),
        wordings=(
            Wording("can't optimize a non-leaf Tensor",
                "ValueError: can't optimize a non-leaf Tensor",
                "The optimizer got the result of an operation, such as .to() or a view of a "
                "parameter, which holds no gradient.",
                "Pass leaf tensors to the optimizer: create the parameter in its final form, "
                "nn.Parameter(x.to(device).view(shape)), and not as the result of an operation "
                "on one."),
            Wording("`fused` and `foreach` cannot be",
                "RuntimeError: `fused` and `foreach` cannot be `True` together.",
                "The optimizer has one implementation at a time.",
                "Pass only one of fused=True and foreach=True."),
            Wording("lr as a Tensor is not supported",
                "ValueError: lr as a Tensor is not supported for capturable=False and "
                "foreach=True",
                "A learning rate in a tensor needs capturable=True for foreach.",
                "Pass the learning rate as a float (lr=rate.item()), or foreach=False with the "
                "tensor; capturable=True is for CUDA graphs."),
            Wording(r"does not support sparse gradients|SparseAdam does not support dense "
                r"gradients|add\(sparse, dense\) is not supported",
                "RuntimeError: Adam does not support sparse gradients, please consider "
                "SparseAdam instead",
                "An embedding with sparse=True gives sparse gradients, which SparseAdam takes "
                "alone, and most optimizers not at all.",
                "Use torch.optim.SparseAdam for embeddings with sparse=True only, and "
                "torch.optim.AdamW for all other parameters, or omit sparse=True."),
            Wording("If capturable=False, state_steps should not be CUDA tensors",
                "AssertionError: If capturable=False, state_steps should not be CUDA tensors.",
                "The optimizer's step counters were moved to the GPU, by loading a state with "
                'map_location="cuda" or by moving all of its state; torch 1.12.0 did so itself.',
                'Load the state with map_location="cpu" and let load_state_dict place it; leave '
                'state["step"] on the CPU; upgrade torch 1.12.0. As a workaround set '
                "capturable=True in each group."),
            Wording("Invalid learning rate|dropout probability has to be|eps must be positive",
                "ValueError: Invalid learning rate: -0.001",
                "An option is outside of the range that the message names.",
                "Pass a value in that range: a learning rate of 0 or more, an eps above 0, a "
                "probability from 0 to 1.",
                more=("ValueError: dropout probability has to be between 0 and 1, but got 10",
                    "ValueError: batch_norm eps must be positive during training, but got 0.0")),
            Wording("Expected positive integer (?:total_steps|steps_per_epoch|epochs)",
                "ValueError: Expected positive integer steps_per_epoch, but got 0",
                "The number of steps of the schedule is 0.",
                "Let the number of steps be at least 1: with n // batch_size it is 0 if a batch "
                "is larger than the data. len(loader) is the number of batches."),
            Wording("'initial_lr' is not specified",
                "KeyError: param 'initial_lr' is not specified in param_groups[0] when resuming",
                "last_epoch makes the schedule go on from the states of an optimizer that has "
                "none.",
                "Omit last_epoch for a new run. To resume, load the states of optimizer and "
                "schedule instead: optimizer.load_state_dict(...), then "
                "schedule.load_state_dict(...)."),
            Wording(r"mode \S{1,40} is unknown!|`cycle_momentum` option enabled|lr_lambdas, but "
                r"got|is not an Optimizer",
                "ValueError: mode minimum is unknown!",
                "An argument of the schedule does not fit: its optimizer, its functions or its "
                "mode.",
                "Pass the optimizer first, StepLR(optimizer, 10), not the model; one function, "
                "which all groups share, or a list with one for each group; "
                "cycle_momentum=False for an optimizer without momentum; mode='min' or 'max', "
                "and threshold_mode='rel' or 'abs' for ReduceLROnPlateau.",
                more=("ValueError: optimizer must support momentum or beta1 with "
                    "`cycle_momentum` option enabled",
                    "ValueError: Expected 2 lr_lambdas, but got 1",
                    "TypeError: MLP is not an Optimizer"))),
        why="An optimizer or a schedule gets a value, a parameter or an option that it does not "
            "take.",
        sources=("torch-optimizer", "torch-adam", "torch-lr-scheduler")),
    Cause(id="schedule-end",
        errors=("ValueError",),
        messages=(r"The specified number of total steps is",),
        examples=("ValueError: Tried to step 3 times. The specified number of total steps is 2",),
        why="The schedule was stepped more often than total_steps says.",
        fix="Let total_steps of the schedule (epochs * steps_per_epoch) be the number of optimizer "
            "steps of the whole training: epochs * len(loader), divided by the steps of gradient "
            "accumulation. If the scheduler is stepped once per epoch, that is the number of "
            "epochs.",
        sources=("torch-lr-scheduler",),
    ),
    Cause(id="scaler-order",
        refines=("autograd-misuse",),
        errors=("AssertionError", "RuntimeError"),
        wordings=(
            Wording(r"No inf checks were recorded prior to update|No inf checks were recorded for "
                r"this optimizer",
                "AssertionError: No inf checks were recorded prior to update.",
                "scaler.step was called without backward() of the scaled loss, or no parameter has "
                    "a gradient.",
                "Call scaler.scale(loss).backward() before scaler.step(optimizer), and pass the "
                    "optimizer the parameters that the loss depends on."),
            Wording(r"Attempted (?:unscale_|step|update) but _scale is None",
                "AssertionError: Attempted unscale_ but _scale is None. This may indicate your "
                    "script did not use scaler.scale(loss or outputs) earlier in the iteration.",
                "scaler.unscale_ or scaler.step came before any scaler.scale(loss): the loss was "
                    "not scaled in this step.",
                "Call scaler.scale(loss).backward(), then scaler.unscale_(optimizer), the "
                    "clipping, scaler.step(optimizer) and scaler.update(), with one scaler for the "
                    "whole training."),
            Wording(r"(?:unscale_|step)\(\) (?:has already been called|is being called after)",
                "RuntimeError: unscale_() has already been called on this optimizer since the last "
                    "update().",
                "scaler.unscale_ or scaler.step came twice for one optimizer between two "
                    "scaler.update(): update is missing, or a framework "
                    "(accelerate.clip_grad_norm_, Lightning) unscales as well.",
                "Per optimizer step: scale(loss).backward(), unscale_ once, clip, step, then "
                    "update() once for all optimizers. With accumulation do all of that only in "
                    "the last micro batch.")),
        why="GradScaler wants one order: scale(loss).backward(), unscale_ once, step, update once.",
        sources=("torch-grad-scaler",),
    ),
)  # fmt: skip

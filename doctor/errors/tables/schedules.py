"""Learning rates, schedules and settings of optimizers."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(
        id="optimizer-of-result",
        errors=("ValueError",),
        messages=(r"can't optimize a non-leaf Tensor",),
        examples=("ValueError: can't optimize a non-leaf Tensor",),
        why="The optimizer got the result of an operation, such as .to() or a view of a "
        "parameter, which holds no gradient.",
        fix="Pass leaf tensors to the optimizer: create the parameter in its final form, "
        "nn.Parameter(x.to(device).view(shape)), and not as the result of an operation on one.",
    ),
    Cause(
        id="option-out-of-range",
        errors=("ValueError",),
        messages=(
            r"Invalid learning rate",
            r"dropout probability has to be",
            r"eps must be positive",
        ),
        examples=(
            "ValueError: Invalid learning rate: -0.001",
            "ValueError: dropout probability has to be between 0 and 1, but got 10",
            "ValueError: batch_norm eps must be positive during training, but got 0.0",
        ),
        why="An option is outside of the range that the message names.",
        fix="Pass a value in that range: a learning rate of 0 or more, an eps above 0, a "
        "probability from 0 to 1.",
    ),
    Cause(
        id="fused-and-foreach",
        errors=("RuntimeError",),
        messages=(r"`fused` and `foreach` cannot be",),
        examples=("RuntimeError: `fused` and `foreach` cannot be `True` together.",),
        why="The optimizer has one implementation at a time.",
        fix="Pass only one of fused=True and foreach=True.",
    ),
    Cause(
        id="learning-rate-tensor",
        errors=("ValueError",),
        messages=(r"lr as a Tensor is not supported",),
        examples=(
            "ValueError: lr as a Tensor is not supported for capturable=False and foreach=True",
        ),
        why="A learning rate in a tensor needs capturable=True for foreach.",
        fix="Pass the learning rate as a float (lr=rate.item()), or foreach=False with the "
        "tensor; capturable=True is for CUDA graphs.",
    ),
    Cause(
        id="sparse-gradients",
        errors=("RuntimeError",),
        messages=(
            r"does not support sparse gradients",
            r"SparseAdam does not support dense gradients",
        ),
        examples=(
            "RuntimeError: Adam does not support sparse gradients, please consider SparseAdam "
            "instead",
            "RuntimeError: SparseAdam does not support dense gradients, please consider Adam "
            "instead",
        ),
        why="An embedding with sparse=True gives sparse gradients, which SparseAdam takes alone, "
        "and most optimizers not at all.",
        fix="Use torch.optim.SparseAdam for embeddings with sparse=True only, and "
        "torch.optim.AdamW for all other parameters, or omit sparse=True.",
    ),
    Cause(
        id="schedule-end",
        errors=("ValueError",),
        messages=(r"The specified number of total steps is",),
        examples=("ValueError: Tried to step 3 times. The specified number of total steps is 2",),
        why="The schedule was stepped more often than total_steps says.",
        fix="Let total_steps of the schedule (epochs * steps_per_epoch) be the number of "
        "optimizer steps of the whole training: epochs * len(loader), divided by the steps of "
        "gradient accumulation. If the scheduler is stepped once per epoch, that is the number of "
        "epochs.",
    ),
    Cause(
        id="schedule-without-steps",
        errors=("ValueError",),
        messages=(r"Expected positive integer (?:total_steps|steps_per_epoch|epochs)",),
        examples=("ValueError: Expected positive integer steps_per_epoch, but got 0",),
        why="The number of steps of the schedule is 0.",
        fix="Let the number of steps be at least 1: with n // batch_size it is 0 if a batch is "
        "larger than the data. len(loader) is the number of batches.",
    ),
    Cause(
        id="schedule-resumed",
        errors=("KeyError",),
        messages=(r"'initial_lr' is not specified",),
        examples=(
            "KeyError: param 'initial_lr' is not specified in param_groups[0] when resuming",
        ),
        why="last_epoch makes the schedule go on from the states of an optimizer that has none.",
        fix="Omit last_epoch for a new run. To resume, load the states of optimizer and schedule "
        "instead: optimizer.load_state_dict(...), then schedule.load_state_dict(...).",
    ),
    Cause(
        id="schedule-mode",
        errors=("ValueError", "TypeError"),
        messages=(
            r"mode \S{1,40} is unknown!",
            r"`cycle_momentum` option enabled",
            r"lr_lambdas, but got",
            r"is not an Optimizer",
        ),
        examples=(
            "ValueError: mode minimum is unknown!",
            "ValueError: optimizer must support momentum or beta1 with `cycle_momentum` option "
            "enabled",
            "ValueError: Expected 2 lr_lambdas, but got 1",
            "TypeError: MLP is not an Optimizer",
        ),
        why="An argument of the schedule does not fit: its optimizer, its functions or its mode.",
        fix="Pass the optimizer first, StepLR(optimizer, 10), not the model; one function, which "
        "all groups share, or a list with one for each group; cycle_momentum=False for an "
        "optimizer without momentum; mode='min' or 'max', and threshold_mode='rel' or 'abs' for "
        "ReduceLROnPlateau.",
    ),
    Cause(
        id="scaler-without-infs",
        errors=("AssertionError",),
        messages=(
            r"No inf checks were recorded prior to update",
            r"No inf checks were recorded for this optimizer",
        ),
        examples=(
            "AssertionError: No inf checks were recorded prior to update.",
            "AssertionError: No inf checks were recorded for this optimizer.",
        ),
        why="scaler.step was called without backward() of the scaled loss, or no parameter has a "
        "gradient.",
        fix="Call scaler.scale(loss).backward() before scaler.step(optimizer), and pass the "
        "optimizer the parameters that the loss depends on.",
    ),
)

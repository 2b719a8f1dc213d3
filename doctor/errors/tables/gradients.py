"""Graphs that end, were freed or were changed, and autograd functions of the user's own."""

from __future__ import annotations

from doctor.errors.cause import Cause

INPLACE = (r"needed for gradient computation has been modified by an inplace operation",)
INPLACE_EXAMPLES = (
    "RuntimeError: one of the variables needed for gradient computation has been modified by an "
    "inplace operation: [torch.FloatTensor [6, 16]], which is output 0 of Sigmoid, is at version "
    "1; expected version 0 instead.",
)
TWICE = (r"Trying to backward through the graph a second time",)
TWICE_EXAMPLES = (
    "RuntimeError: Trying to backward through the graph a second time (or directly access saved "
    "tensors after they have already been freed).",
)

ROWS = (
    Cause(id="parameter-changed-before-backward",
        errors=("RuntimeError",),
        messages=INPLACE,
        examples=INPLACE_EXAMPLES,
        why="optimizer.step(), an average of weights or an embedding with max_norm changes "
            "parameters between a forward pass and its backward pass.",
        fix="Call backward() for every loss first and step the optimizers then, or compute the "
            "second loss with a new forward pass. An nn.Embedding with max_norm renormalizes its "
            "table at each call: use weight.clone() where the table itself is used.",
        told_by="the tensor in the message is a weight", sources=("torch-saved-variable",),
    ),
    Cause(id="value-changed-in-place",
        errors=("RuntimeError",),
        messages=INPLACE,
        examples=INPLACE_EXAMPLES,
        why="A line changes in place what the backward pass of an earlier line needs.",
        fix="Write it without an in-place change: x = x + y for x += y, torch.cat, torch.stack or "
            "torch.where for x[i] = y, masked_fill for masked_fill_, or work on x.clone().",
        told_by="the tensor in the message is a result of the forward pass",
        sources=("graphcmr-19",),
    ),
    Cause(id="backward-in-the-loss",
        errors=("RuntimeError",),
        messages=(*TWICE,),
        examples=(*TWICE_EXAMPLES,),
        why="backward() is called where the loss is computed, on that loss or on one that shares a "
            "part of its graph, and again on what is returned.",
        fix="Return the loss before backward() is called, once for each loss. Where two losses "
            "share a part, detach what the first one does not train, as in critic(fake.detach()), "
            "or compute that part again. If a gradient is needed there on purpose, pass "
            "retain_graph=True to the first backward().",
        told_by="the loss function calls backward()", sources=("torch-saved-variable",),
    ),
    Cause(id="graph-of-another-step",
        errors=("RuntimeError",),
        messages=(*TWICE,),
        examples=(*TWICE_EXAMPLES,),
        why="A tensor with a graph outlives its step: a state, a running average, what was "
            "computed once before the training, or what a forward hook returns, which replaces the "
            "output.",
        fix="Detach it where it is kept, with .detach(), or compute it under torch.no_grad(); in "
            "forward or in the loss if it is to be trained. A hook that only keeps a value returns "
            "None: dict.setdefault and a lambda return one.",
        told_by="the first step works, the second one raises", sources=("torch-saved-variable",),
    ),
    Cause(id="parameter-changed-in-place",
        errors=("RuntimeError",),
        messages=(r"a leaf Variable that requires grad is being used in an in-place operation",),
        examples=("RuntimeError: a leaf Variable that requires grad is being used in an in-place "
              "operation.",),
        why="A parameter is changed where autograd records.",
        fix="Change it under torch.no_grad() after optimizer.step(), rather than in forward. To "
            "compute with changed values, make a new tensor: clamp( for clamp_(, x + y for x += y, "
            "x.clone() before x[i] = y.",
        sources=("torch-variable-utils",),
    ),
    Cause(id="gradients-of-own-function",
        errors=("RuntimeError", "TypeError"),
        messages=(r"Backward\b.{0,40} returned an (?:incorrect number of gradients|invalid "
              r"gradient)",
            r"\bbackward\(\) (?:takes|missing) \d"),
        examples=("RuntimeError: function ScaleBackward returned an incorrect number of gradients "
              "(expected 2, got 1)",
            "TypeError: _Polar.backward() takes 2 positional arguments but 3 were given"),
        sources=("torch-function",),
        why="backward of a torch.autograd.Function gets one gradient for each output of forward, "
            "and returns one for each argument of forward, in its shape.",
        fix="Return as many values as forward has arguments after ctx, None for what needs no "
            "gradient, each in the shape of its argument.",
    ),
)  # fmt: skip

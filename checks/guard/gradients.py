"""Gradients: there, finite, not zero, cleared."""

from __future__ import annotations

from doctor.checks.guard.loss import NON_FINITE_FIXES
from doctor.checks.guard.observed import enough, observed, unless_unlabelled
from doctor.judge.check import Check, Owner

CHECKPOINT = (
    "Pass use_reentrant=False to torch.utils.checkpoint.checkpoint(), or "
    "gradient_checkpointing_kwargs={'use_reentrant': False} to the Trainer or "
    "gradient_checkpointing_enable(): the reentrant kind gives no gradient to the layers inside "
    "unless an input needs one. Or call model.enable_input_require_grads() before the training."
)

READ = "steps whose gradient norm was read"

FINITE = Check(
    code="GRD002",
    slug="gradients-finite",
    title="Every applied step has finite gradients",
    why="One step with a NaN gradient makes every weight NaN under Adam, and Inf destroys its "
    "moments. Without a loss scaler nothing skips such a step.",
    passes=("no step with gradients that are not finite leaves such weights",),
    warns=("a gradient norm is NaN or Inf, and not all weights after the step could be read",),
    fails=(
        "a gradient norm is NaN or Inf, and right after the step weights or the optimizer's state "
        "are not finite",
    ),
    fix="Restart from the last checkpoint before this step, or from the start without one. "
    "`doctor run --model` with doctor.guard.replay, which returns the recorded batch, names the "
    "operation that is not finite. Until it is fixed, skip such steps: protect=True in "
    "doctor.guard.watch() does so for fused optimizers.",
    owner=Owner.JOB,
    judge=observed(
        "GRD002",
        enough("norms", 1, "{n} gradient norms, and no step that spoiled the weights", READ),
        NON_FINITE_FIXES,
        origin=True,
    ),
    limits="that no single gradient was not finite, where the loop does not clip: then the norm of "
    "the smallest 16 tensors is read, that of all at the comparisons; and nothing of steps that "
    "were not read (see the report's notes).",
    sources=("ps-P8", "ps-P9", "ps-P13", "ps-P18"),
)

PRESENT = Check(
    code="GRD003",
    slug="optimizer-has-gradients",
    title="The optimizer's parameters get gradients",
    why="torch skips parameters without a gradient silently. An optimizer that was created before "
    "FSDP, before LoRA or for another copy of the model steps for days and changes nothing.",
    passes=("the optimizer's parameters have gradients when it steps",),
    warns=(
        "50 steps in a row without any gradient, after gradients or beside other optimizers",
        "at two comparisons, from step 50 on, parameters of the model have gradients, are in no "
        "optimizer and do not change",
        "in 5 of the first 20 steps, two optimizers apply the same gradients to a parameter that "
        "both hold",
        "of two optimizers, 5 times in a row, a term of the loss before the steps of one reaches "
        "only parameters of the other, whose gradients are cleared without a step",
    ),
    fails=(
        "none of the parameters has a gradient, 3 steps in a row from the start",
        "the program ends after 10 steps of torch's optimizers or more, without a backward pass or "
        "any gradient",
    ),
    fix="Create the optimizer from the parameters of the model that is trained, after FSDP, DDP, "
    "LoRA, .to() and weight tying; with accelerate, pass model and optimizer to one prepare().",
    owner=Owner.JOB,
    judge=observed(
        "GRD003",
        enough("steps", 3, "the parameters have gradients in {n} steps", "steps"),
        {
            "cleared": "Call optimizer.zero_grad() or model.zero_grad() before backward() or after "
            "step(), not between them.",
            "lost": "Check whether the optimizer still should step: its loss no longer reaches its "
            "parameters, or zero_grad() runs between backward() and step().",
            "other-model": "Create the optimizer anew, from the parameters of the model that is "
            "trained now, wherever that model is replaced: for each fold, trial or phase.",
            "shared": "Give each parameter to one optimizer: leave out of the second what the "
            "first holds. To set a learning rate of its own, use a parameter group of one "
            "optimizer.",
            "no-backward": "Call loss.backward() before optimizer.step(). Lightning's "
            "training_step() must return the loss; with automatic_optimization = False it calls "
            "self.manual_backward(loss) itself.",
            "rebuilt": "Compute the loss with tensor operations from the model's output to "
            "backward(): torch.stack(losses).mean() in place of torch.tensor(losses, "
            "requires_grad=True), and no .item(), .numpy() or .detach() on the way. "
            "requires_grad_() on a loss hides the error and trains nothing.",
            "held-twice": "Build each optimizer from the parameters of its own network, such as "
            "Adam(actor.parameters()): two of them got the same parameters, and these are in none.",
            "unregistered": "Keep submodules in nn.ModuleList or nn.ModuleDict, not in a list or a "
            "dict: then model.parameters(), state_dict(), to() and train() include them.",
            "beside": "Give the optimizer the parameters of all networks that train, such as "
            "AdamW([*encoder.parameters(), *head.parameters()]), or make them one module "
            "(nn.ModuleDict) and pass its parameters(). Where one shall not train, compute it "
            "under torch.no_grad().",
            "twin": "Right for a target network or an average, which follows by itself: compute it "
            "under torch.no_grad(). A second network that is to train belongs into an optimizer.",
            "left-out": "Give these parameters to the optimizer, those that are unfrozen later "
            "with add_param_group(). model.parameters() leaves out tensors and lists that are "
            "plain attributes of a module: use nn.Parameter and nn.ParameterList. If they shall "
            "not be trained, requires_grad_(False) saves their part of the backward pass.",
            "term": "Remove .detach(), .data or no_grad() between the network that steps and this "
            "term: a generator's adversarial loss needs D(fake) with the graph of fake; only the "
            "discriminator's own step detaches it.",
            "frozen": "Call requires_grad_(True) on this network before its own pass: what freezes "
            "it for the other network's step must be undone after it.",
            "copy": "The gradients are those of a copy (copy.deepcopy, clone). Give them to the "
            "parameters of this optimizer before its step, p.grad = q.grad, or compute with "
            "torch.func.functional_call() so that the graph leads back to them.",
        },
    ),
    limits="that every parameter has one: see GRD016.",
    sources=("fnr-gradients", "accelerate-3256", "pytorch-149205"),
)

NOT_ZERO = Check(
    code="GRD004",
    slug="gradients-not-zero",
    title="The gradients are not zero",
    why="Gradients that are all exactly 0 mean that the loss does not depend on the parameters: no "
    "label, equal rewards, a detached branch, or underflow in fp16.",
    passes=("the gradient norm is not 0 three steps in a row",),
    warns=(
        "it is 0 in 10 steps in a row; where the loss is exactly 0 as well, in 20",
        "the loop takes a norm that is not 0, and at 3 comparisons in a row the optimizer gets 0",
        "at 3 comparisons in a row, from step 20 on, the bias of a linear or convolution layer has "
        "a gradient and its weight's is 0 everywhere: the layer's input is 0",
        "of two networks that train against each other, the loss of one falls below 0.05 and a "
        "twentieth of its start, and the gradient norm of the other below a fiftieth",
    ),
    fails=(
        "it is 0 in 20 steps in a row, and the loss is not 0",
        "the optimizer gets 0 at more comparisons than that, after 20 steps",
    ),
    fix="Check loss.requires_grad and loss.grad_fn, look for .detach() and torch.no_grad(), and "
    "with LoRA check that the B matrices are trainable. With equal rewards in GRPO, change the "
    "reward or sample more completions.",
    owner=Owner.JOB,
    judge=unless_unlabelled(
        observed(
            "GRD004",
            enough("norms", 1, "{n} gradient norms, not 0 for long", READ),
            {
                "loss-zero": "Nothing is left to learn: a margin that every pair keeps, rewards "
                "that are all equal, or a batch without anything to predict. Print the share of "
                "such samples, and end the training or choose harder ones.",
                "agree": "Correct the targets of the network that decides: generated samples are 0 "
                "in its own loss and 1 in the generator's, or the signs of the two are opposite.",
                "adversary": "Give the two equal strength: fewer steps or a lower learning rate "
                "for the one that has won, noise or softened labels for what it tells apart, a "
                "gradient penalty or spectral norms. For the other, the loss that does not "
                "saturate, -log D(G(z)) in place of log(1 - D(G(z))), has a gradient there.",
                "no-input": "Print the share of zeros in this layer's input for a batch. Where a "
                "ReLU comes before it, its units are dead: their inputs are below 0 for every "
                "sample; check the scale and initialization of the layer before it, initialize "
                "that layer anew, and lower the learning rate. Otherwise look for a mask, a "
                "factor of 0, or features that are not filled in.",
                "cut": "Look at what runs between backward() and step(): max_norm=0 or a clip by "
                "value of 0, a mask, a hook, or zero_grad(), which belongs before backward() or "
                "after step().",
            },
        )
    ),
    limits="that every parameter has a gradient that is not 0.",
    sources=("ps-P10", "ps-P18", "fnr-gradients", "trl-3857"),
    after=("GRD009",),
)

CLEARED = Check(
    code="GRD012",
    slug="gradients-cleared",
    title="Gradients are cleared between steps",
    why="Without zero_grad() every step adds the gradients of all steps before it: the direction "
    "is stale and its length grows, which clipping hides.",
    passes=("the gradients are cleared between two steps",),
    warns=(
        "the gradients of 5 steps in a row were added to those of the step before",
        "in 5 of the first 20 steps in a row, each of at least 4 backward passes came after the "
        "gradients of the one before had been cleared",
        "8 of 20 steps come without a backward pass and use the gradients of the step before again",
        "of two networks that train against each other, one applies the gradients of the other's "
        "passes together with its own, 5 times in a row",
        "3 steps in a row of torch's LBFGS evaluate a closure several times, and nothing clears "
        "the gradients in between",
    ),
    fix="Call optimizer.zero_grad() after optimizer.step(). To accumulate on purpose, step once "
    "per accumulation instead of at every micro-batch.",
    owner=Owner.JOB,
    judge=observed(
        "GRD012",
        enough("steps", 6, "gradients are cleared in {n} steps", "steps"),
        {
            "repeated": "Call optimizer.step() once per backward pass: look for a second call in "
            "the loop, in a callback, or inside a scheduler or a wrapper of the optimizer.",
            "other-pass": "Call zero_grad() of this optimizer directly before its own backward "
            "pass: a clearing after its step comes before the other network's pass, which fills "
            "its gradients again. Where the other pass needs no graph through this network, "
            "detach() its input.",
            "closure": "Call optimizer.zero_grad() in the closure, before its backward(): LBFGS "
            "calls the closure up to max_iter times in each step().",
            "between": "Call optimizer.zero_grad() once per step, before the first or after the "
            "last backward pass of an accumulation, not before each of them.",
        },
    ),
    limits="that they are cleared at every step, or for every parameter.",
    sources=("ps-P18",),
)

REACHED = Check(
    code="GRD016",
    slug="parameters-reached",
    title="Every trainable parameter gets a gradient",
    why="A parameter that is trained and never gets a gradient is an unused branch, a head that "
    "the loss does not see, or a layer that a kernel or checkpointing cut off.",
    passes=("every trainable parameter of the optimizer got a gradient within 100 steps",),
    warns=(
        "one did not, or in 40 steps of a training that has ended; experts of a mixture do not "
        "count",
        "at the end, one had gradients of exactly 0 at all comparisons from step 20 on, at least 3",
    ),
    fix="Look between these parameters and the loss for torch.no_grad(), also as a decorator, "
    "detach(), .data, item() or NumPy, and whether the module is called at all; print param.grad "
    "after backward(). If it is unused on purpose, set requires_grad_(False), or list it in "
    "expect_no_grad of doctor.toml.",
    owner=Owner.JOB,
    judge=observed(
        "GRD016",
        enough(
            "effective",
            100,
            "every parameter got a gradient within 100 of {n} steps",
            "steps that should change weights",
        ),
        {
            "checkpoint": CHECKPOINT,
            "replaced": "Create the optimizer after the last change of the model, such as another "
            "head: it holds the parameters of what was there before, and not the new ones.",
            "zeros": "Give the optimizer what shall be trained and nothing else: "
            "student.parameters(), not those of its teacher or average, too, which weight decay "
            "shrinks in every step. Where they should train, look for a detach(), a factor of 0 "
            "or dead units.",
        },
    ),
    sources=("fnr-gradients", "fnr-optimizer", "unsloth-4533"),
)

CHECKS = (FINITE, PRESENT, NOT_ZERO, CLEARED, REACHED)

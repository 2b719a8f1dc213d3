"""Losses of torch that get another kind of input than they take: what no error says."""

from __future__ import annotations

from doctor.errors.cause import Cause

COMMANDS = ("doctor lint train.py", "doctor run --model FILE.py:factory")

SOFTMAX_TWICE = Cause(id="softmax-twice",
    words=(
        "softmax|log_softmax cross_entropy|crossentropy|crossentropyloss|nn.crossentropyloss",
        "sigmoid bcewithlogits|bcewithlogitsloss|bce_with_logits|with_logits",
    ),
    examples=(
        "softmax in forward and CrossEntropyLoss",
        "sigmoid before BCEWithLogitsLoss",
    ),
    why="CrossEntropyLoss and BCEWithLogitsLoss contain the softmax or the sigmoid: applied "
        "twice, outputs are pressed together, gradients are small, and the loss cannot come "
        "near 0.",
    fix="Return the logits from the model and let the loss apply the activation; apply softmax or "
        "sigmoid for predictions only. Probabilities that are a weighted mean belong into "
        "nll_loss(p.clamp(min=1e-8).log(), labels).",
    role="symptom", commands=COMMANDS, sources=("torch-cross-entropy",),
)  # fmt: skip
AGAINST_ALL = Cause(id="predictions-against-all-targets",
    words=(
        "mse|mseloss|l1loss|smooth_l1|huber|bce n,_1|n,1|batch,_1|b,_1|batch_size,_1 "
        "shape|broadcast|target|loss",
    ),
    examples=(
        "mse loss broadcasts [N, 1] with a target of [N]",
    ),
    why="Shapes [N, 1] and [N] broadcast to [N, N]: each prediction is compared with every "
        "target, and the model learns their mean. torch only warns.",
    fix="Give both the same shape: squeeze(-1) on that of [N, 1], or unsqueeze(-1) on the other.",
    role="symptom", commands=COMMANDS, sources=("torch-functional",),
)  # fmt: skip
NO_LOGARITHMS = Cause(id="scores-for-log-probabilities",
    words=(
        "nll_loss|nllloss|kldivloss|kl_div|ctcloss|ctc_loss without|instead|missing|expects|needs "
        "log_softmax|logsoftmax|log_prob|log_probabilities",
    ),
    examples=(
        "nll_loss without log_softmax",
    ),
    why="The input of nll_loss, kl_div and ctc_loss are logarithms of probabilities: of logits or "
        "probabilities they make a loss that can fall without limit, or means nothing.",
    fix="Pass logits.log_softmax(dim) over the classes, in the place of softmax or of the logits: "
        "the first argument of nll_loss, kl_div and ctc_loss are log-probabilities. For classes "
        "nn.CrossEntropyLoss on the logits does both.",
    role="symptom", commands=COMMANDS, sources=("torch-losses",),
)  # fmt: skip
OVER_SAMPLES = Cause(id="softmax-over-samples",
    words=(
        "softmax|log_softmax dim=0|dim_0|axis_0|batch_dim|over_the_batch|over_the_samples|"
        "wrong_dim|wrong_axis",
    ),
    examples=(
        "log_softmax with dim=0 over the batch",
    ),
    why="Over the first dimension the values of one sample do not sum to 1, and each depends on "
        "the other samples of its batch.",
    fix="Normalize over the classes: log_softmax(x, dim=1), or dim=-1 where they are last, or pass "
        "the logits to nn.CrossEntropyLoss.",
    role="symptom", commands=COMMANDS, sources=("torch-losses",),
)  # fmt: skip
TARGETS = Cause(id="targets-beyond-probabilities",
    words=(
        "bce|bceloss|bcewithlogits|bcewithlogitsloss|binary_cross_entropy target|mask|label "
        "255|-1|outside|greater_than_1|larger_than_1|negative",
    ),
    examples=(
        "binary_cross_entropy with masks of 0 and 255",
    ),
    why="The targets of binary_cross_entropy are probabilities: beyond 0 and 1 its loss has no "
        "lower bound.",
    fix="Scale the targets to 0 and 1: divide masks of 0 and 255 by 255, or compare them, (mask > "
        "0).float(); map labels of -1 and 1 by (y + 1) / 2. Leave out missing labels by "
        "reduction='none' and a mask.",
    role="symptom", commands=COMMANDS, sources=("torch-losses",),
)  # fmt: skip
BOUNDED = Cause(id="activation-short-of-targets",
    words=(
        "relu|sigmoid|tanh|softplus last|final|output negative|range|target|standardiz|normaliz "
        "regress|mse|mseloss",
    ),
    examples=(
        "sigmoid as the last layer of a regression whose targets are standardized (mse)",
    ),
    why="An activation returns values of its range alone: targets beyond it cannot be reached, "
        "and the gradient there is 0 or nearly so.",
    fix="Remove the activation behind the last layer, or bring the targets into its range: tanh "
        "has -1 to 1, sigmoid 0 to 1.",
    role="symptom", commands=COMMANDS,
)  # fmt: skip

ROWS = (SOFTMAX_TWICE, AGAINST_ALL, NO_LOGARITHMS, OVER_SAMPLES, TARGETS, BOUNDED)

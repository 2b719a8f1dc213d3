"""Symptoms of a loss, in the words of people: what to look at, and which command decides."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="loss-jumps-after-resume",
        messages=(r"(?:loss|metrics?) (?:jumps?|jumped|spikes?|rises?|goes up|higher|increases?|is "
              r"higher) .{0,30}(?:after|when|on) (?:resum|restart|reload|load)",),
        examples=("loss jumps after resume", "the loss is higher after resuming from a checkpoint"),
        why="The state is not the one that was saved: optimizer, scheduler or loss scale were not "
            "loaded, the data begin anew, or the weights are those of another step or dtype.",
        fix="Compare the learning rate and the norm of the gradient before and after. Save and "
            "load optimizer, scheduler, scaler, random state and the position in the data; a spike "
            "of a few steps with a fresh optimizer is normal.",
        role="symptom",
        commands=("doctor scan CHECKPOINT", "doctor lint train.py"),
    ),
    Cause(id="loss-does-not-fall",
        messages=(r"loss (?:does(?:n't| not)|is not|isn't|won't|not) (?:decreas|fall|go(?:ing)? "
              r"down|drop|improv|converg)|loss (?:stays|stuck|remains|is stuck|is constant|"
              r"stagnates|flat)",),
        examples=("loss does not decrease", "my loss is not decreasing", "loss stays the same"),
        why="Nothing is trained, or too slowly: parameters that get no gradient or are not in the "
            "optimizer, labels that are masked, a learning rate of the wrong size, a loss that is "
            "detached.",
        fix="Overfit one batch first: a model that cannot is broken. Then look whether gradients "
            "reach the parameters and the weights change.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory", "doctor guard -- python train.py",
            "doctor lint train.py"),
    ),
    Cause(id="loss-at-logarithm-of-classes",
        messages=(r"loss .{0,20}(?:ln|log) ?\(?(?:of )?(?:the )?(?:number|vocab|classes|[VCK]\b)|"
              r"loss .{0,20}random guess|chance level|random chance",),
        examples=("loss stuck at log(number of classes)", "accuracy at chance level",
            "loss is ln(vocabulary size)"),
        why="The outputs do not depend on the inputs: labels and samples are shuffled apart, "
            "inputs are constant, logits pass a softmax twice, or the last layer gets no gradient.",
        fix="Print two samples with their labels as the model gets them, and the gradient of the "
            "last layer.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory", "doctor lint train.py"),
    ),
    Cause(id="loss-is-zero",
        messages=(r"loss (?:is|are|becomes?|goes to|drops? to|of|=) ?(?:exactly )?(?:0\.0+|zero|"
              r"0)\b(?!\.\d*[1-9])",),
        examples=("loss is 0.0 from the first step", "the loss becomes zero"),
        why="A NaN that the Trainer's filter shows as 0.0, labels that are all masked, or, with "
            "GRPO, a first step whose loss is 0 by definition.",
        fix="Look at the gradient norm beside it: NaN means a hidden NaN "
            "(logging_nan_inf_filter=False shows it), 0 means no labels. Print the share of labels "
            "that are not -100.",
        role="symptom",
        commands=("doctor triage train.log", "doctor guard -- python train.py"),
    ),
    Cause(id="loss-becomes-nan",
        messages=(r"loss (?:is|becomes?|turns?(?: into)?|goes(?: to)?|went|shows?|=) ?nan\b|\bnan "
              r"loss\b|nan after .{0,20}steps?",),
        examples=("loss becomes nan", "nan loss after some steps", "the loss turns into nan"),
        why="A value exceeded its format, or an operation has no gradient there: fp16, a learning "
            "rate that is too high, a division or root at 0, a row of attention that is wholly "
            "masked, a damaged sample.",
        fix="Find the first step and whether the loss or the gradient went first; run that batch "
            "in fp32 with torch.autograd.set_detect_anomaly(True). Use bf16 with fp32 weights and "
            "clip the norm.",
        role="symptom",
        commands=("doctor triage train.log", "doctor guard -- python train.py"),
    ),
    Cause(id="loss-diverges",
        messages=(r"loss (?:diverg|explod|blows? up|increases? (?:over|during|again)|keeps "
              r"(?:increasing|rising)|goes up)|training (?:diverg|is unstable|unstable)",),
        examples=("loss explodes after a while", "training is unstable", "the loss diverges"),
        why="Steps are too large for the curvature: the learning rate, the warm-up, no clipping, "
            "momentum of Adam that has not settled, or 16-bit weights.",
        fix="Halve the learning rate, warm up over 1 to 5 % of the steps, clip the norm at 1.0, "
            "keep fp32 weights; go back to a checkpoint before the rise.",
        role="symptom",
        commands=("doctor triage train.log", "doctor lint train.py"),
    ),
    Cause(id="loss-spikes-seen",
        messages=(r"loss spikes?\b|spikes? in (?:the )?(?:training )?loss|sudden (?:jump|spike|"
              r"increase)",),
        examples=("loss spikes during pretraining", "sudden jump of the loss"),
        why="Single batches with outliers, a rate that is high for this stage, or a second moment "
            "of Adam that is out of date.",
        fix="Look at the norm of the gradient just before and at the samples of that step. A spike "
            "that recovers needs nothing; else go back about 100 steps and skip those batches.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="loss-negative",
        messages=(r"loss (?:is|becomes?|goes|turns) negative|negative loss",),
        examples=("loss becomes negative", "negative loss values"),
        why="Normal for log-densities, policies and contrastive bounds. For cross-entropy it means "
            "targets outside 0 to 1, or class indices where probabilities are expected.",
        fix="Check the range of the targets and which form of the loss they belong to.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory",),
    ),
    Cause(id="loss-saw-tooth",
        messages=(r"loss (?:is )?(?:oscillat|fluctuat|noisy|zig ?zag|jumps? up and down|bounces?)|"
              r"noisy (?:training )?loss|periodic (?:loss|pattern)",),
        examples=("loss is oscillating", "noisy training loss"),
        why="Small batches are noisy by nature, diffusion and reinforcement learning most of all. "
            "A period of one epoch means that the data are not shuffled or are memorized.",
        fix="Plot a running mean of 100 steps before you judge. If that is flat or has a period, "
            "check the sampler (set_epoch) and the learning rate.",
        role="symptom",
        commands=("doctor triage train.log", "doctor lint train.py"),
    ),
    Cause(id="steps-at-each-epoch",
        messages=(r"loss (?:drops?|falls?|jumps?|steps?) (?:at|after|with|every|each) .{0,15}epoch|"
              r"staircase|stair-?step",),
        examples=("loss drops at each epoch boundary", "staircase shaped loss"),
        why="The model memorizes samples: it sees them again in the next epoch.",
        fix="Compare with the loss on held-out data; use fewer epochs, more data, a lower learning "
            "rate or a smaller rank of LoRA.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="evaluation-worse-than-training",
        messages=(r"(?:val(?:idation)?|eval(?:uation)?|test) (?:loss|accuracy|metrics?) (?:is |are "
              r")?(?:much )?(?:higher|worse|lower|increas|rising|not improv|goes up)|overfit",),
        examples=("validation loss increases while training loss falls",
            "eval accuracy is much worse",
            "my model overfits"),
        why="Overfitting, or a difference between the two paths: eval() is missing, another "
            "preprocessing, another template, a leak.",
        fix="Evaluate on training samples with the evaluation code: if they score badly, too, the "
            "path differs and not the model.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="accuracy-too-good",
        messages=(r"(?:accuracy|scores?) .{0,15}(?:too good|100 ?%|suspicious|perfect)|data "
              r"leakage",),
        examples=("accuracy is suspiciously high", "accuracy of 100% at once", "data leakage"),
        why="The answer is in the input: samples of the test set in training, a label among the "
            "features, a causal mask or a shift that is missing.",
        fix="Search duplicates between the splits, and predict from inputs with the later tokens "
            "replaced: the outputs before must not change.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory",),
    ),
    Cause(id="gradient-norm-zero",
        messages=(r"grad(?:ient)?(?:_| )?(?:norm)?s? (?:is|are|=|of) ?(?:always |all )?(?:0\b|zero|"
              r"none)|no gradients?\b|vanishing gradients?",),
        examples=("grad_norm is 0", "gradients are None", "vanishing gradients"),
        why="The loss does not depend on the parameters: a detach, no_grad, frozen layers, an "
            "integer cast, masked labels, or activations that saturate.",
        fix="List the parameters whose gradient is None or 0 after one backward; the first of them "
            "in the order of the forward shows where the graph ends.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory", "doctor guard -- python train.py"),
    ),
    Cause(id="gradient-norm-huge",
        messages=(r"grad(?:ient)?(?:_| )?norms? (?:is |are )?(?:huge|very (?:large|high)|too "
              r"(?:large|high)|explod|in the (?:thousands|millions))|exploding gradients?",),
        examples=("gradient norm is huge", "exploding gradients"),
        why="Losses that are summed instead of averaged, a norm logged before it is unscaled, a "
            "missing initialization, or true instability.",
        fix="Divide by the loss scale and by the number of accumulation steps before you judge; "
            "then clip at 1.0 and lower the rate.",
        role="symptom",
        commands=("doctor lint train.py", "doctor guard -- python train.py"),
    ),
    Cause(id="learning-rate-stays-zero",
        messages=(r"learning[_ ]rate (?:is|stays|=|of) ?(?:always )?(?:0\b|zero|0\.0)",),
        examples=("learning rate is 0", "learning_rate stays zero"),
        why="The first step of a warm-up has rate 0. Later zeros come from a scheduler that was "
            "built for fewer steps, or that steps once per micro-batch or rank.",
        fix="Print the total number of optimizer steps that the scheduler got, and how often it is "
            "stepped per optimizer step.",
        role="symptom",
        commands=("doctor lint train.py", "doctor triage train.log"),
    ),
    Cause(id="rewards-do-not-rise",
        messages=(r"rewards? (?:is |are )?(?:not|n't|does(?:n't| not)|stays?|stuck|flat|drops?|"
              r"collaps|constant|zero|0\b).{0,25}|\bkl (?:divergence )?(?:explod|blows up|becomes "
              r"negative)",),
        examples=("reward does not increase", "KL explodes", "reward collapses after 200 steps"),
        why="All answers of a group get one reward, so that advantages are 0; the format is never "
            "met; completions are cut; or the policy left the reference.",
        fix="Log the share of groups with equal rewards, the share of cut completions, and the "
            "text of ten answers; raise the temperature or the number of generations, or the KL "
            "weight.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="generator-wins-nothing",
        messages=(r"mode collapse|discriminator (?:loss|wins|too strong)|generator loss",),
        examples=("mode collapse in my GAN", "discriminator wins"),
        why="The two sides of an adversarial training are out of balance.",
        fix="Lower the critic's rate or its number of steps, use spectral norm or a gradient "
            "penalty; judge by samples, the losses do not fall in a healthy run.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory",),
    ),
    Cause(id="training-not-reproducible",
        messages=(r"(?:not|n't|isn't|cannot be) reproducible|different results? (?:with|for|every|"
              r"each) .{0,20}(?:seed|run|time)|non-?determinis",),
        examples=("results are not reproducible", "different results with the same seed",
            "training is nondeterministic"),
        why="Seeds of workers and libraries, kernels with atomic additions, TF32, another GPU or "
            "library version, or a sum in another order over ranks.",
        fix="Set all seeds and torch.use_deterministic_algorithms(True) for one run; if two such "
            "runs differ in bits on one GPU, the hardware or a race is suspect.",
        role="symptom",
        commands=("doctor run --only GPU006", "doctor lint train.py"),
        sources=("torch-randomness",),
    ),
)  # fmt: skip

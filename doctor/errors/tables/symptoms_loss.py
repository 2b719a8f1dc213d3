"""Symptoms of a loss, in the words of people: what to look at, and which command decides."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="validation-better-than-training",
        words=(
            "@eval>loss|error>lower|less|smaller|below|better>train",
            "train>loss|error>higher|larger|above|greater|wors>@eval",
            "@eval>accuracy|acc$|score>higher|better|above|exceeds>train",
            "train>accuracy|acc$|score>lower|wors|below>@eval",
        ),
        examples=(
            "validation loss lower than training loss",
            "training accuracy is lower than test accuracy",
        ),
        why="Usually no fault: dropout, augmentation, label smoothing and regularization act in "
            "training only, and the training value is a mean over an epoch in which the model was "
            "still worse.",
        fix="Evaluate the training samples with the evaluation code: if these are as good, "
            "nothing is wrong. If not, the validation set is easier, or holds samples of the "
            "training set: search duplicates.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="softmax-twice",
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
        fix="Return the logits from forward, without softmax or sigmoid; apply it only to "
            "predictions.",
        role="symptom",
        commands=("doctor lint train.py", "doctor run --model FILE.py:factory",),
    ),
    Cause(id="accumulation-differs",
        words=(
            "accumulat @bad|@not|higher|different|equal|equivalent|match|large|larger|"
            "scale|divide !@memory !@oom !@hang",
        ),
        examples=(
            "gradient accumulation gives a worse loss than a large batch",
        ),
        why="The loss is averaged for each micro-batch, so that short ones weigh as much as long "
            "ones; or it is not divided by the number of micro-batches; or the scheduler and the "
            "clipping act once per micro-batch.",
        fix="Divide the sum of the losses by the number of tokens of all micro-batches "
            "(transformers does so since 4.46, where the model takes num_items_in_batch); average "
            "losses of samples: loss / steps. Step the scheduler and clip once per optimizer "
            "step.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="larger-batch-worse",
        words=(
            "batch|batches|batch_size|batchsize bigger|larger|increas|large|doubl|huge "
            "accuracy|acc$|loss|result|results|generaliz|performance|quality @bad|@fall|"
            "hurts !accumul !@memory !@oom",
        ),
        examples=(
            "larger batch size makes accuracy worse",
        ),
        why="With the same epochs a larger batch takes fewer steps, and the learning rate was "
            "that of the small one.",
        fix="Raise the learning rate with the batch (SGD in proportion, Adam with its square "
            "root) after a warm-up, and train as many steps; beyond some size (the critical one) "
            "it only costs samples.",
        role="symptom",
        commands=("doctor prescribe",),
    ),
    Cause(id="metric-does-not-follow-loss",
        words=(
            "loss>@fall|improv|low$|good>accuracy|acc$|f1|metric|map$|bleu|wer$|"
            "score>@same|@not|chance|@zero|random",
            "accuracy|acc$|f1|metric|map$|bleu|wer$|score>@same|@not|@zero>loss>@fall|improv",
            "map$|map50|recall|iou$ @zero train|loss|detect|epoch|yolo",
            "boxes|bbox|bboxes|keypoints shift|offset|wrong|misalign|scaled",
        ),
        examples=(
            "loss decreases but accuracy does not improve",
            "mAP is 0 while training goes on",
            "predicted boxes are shifted",
        ),
        why="The metric is computed from something else than the loss: labels, classes or boxes "
            "in another order, form or scale, predictions before the last step of processing, a "
            "threshold, or padding that is counted.",
        fix="Feed the targets themselves to the metric as predictions: it must be perfect. Then "
            "compare the ids of classes, the form of boxes (xyxy or xywh, pixels or shares, of "
            "the resized image) and the argmax or threshold. On new samples only: see "
            "overfitting.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="same-class-predicted",
        words=(
            "predict|predicts|predictions|output|outputs|classif|segment|detect|model|"
            "network same|only|one$|single|always|every|all$ class|classes|label|"
            "background|majority|category|negative|positive|zeros|mask !labels !stuck",
        ),
        examples=(
            "model predicts the same class for every image",
            "segmentation predicts only background",
        ),
        why="The most frequent answer is a cheap one: classes are unbalanced, the learning rate "
            "killed the units at the start, or inputs reach the model constant or without their "
            "normalization.",
        fix="Overfit 20 samples of all classes with a tenth of the rate. If that works, balance: "
            "class weights, a weighted sampler, dice or focal loss for segmentation, crops with "
            "foreground. If not, print the inputs, and the spread of the logits over a batch.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory", "doctor guard -- python train.py",),
    ),
    Cause(id="evaluation-mode-worse",
        words=(
            "model.eval|eval()|eval_mode|evaluation_mode|.eval() model.train|train()|"
            "train_mode|training_mode|same_batch|same_data|@bad|collaps|@fall|switch",
            "batchnorm|batch_norm|running_mean|running_var|running_stat @eval|inference|"
            "predict @bad|@not|small",
        ),
        examples=(
            "model.eval() is much worse than model.train() on the same data",
            "BatchNorm gives bad results at test time",
        ),
        why="BatchNorm uses the statistics of the batch in training and stored means in "
            "evaluation; these do not fit: small batches, few steps, a momentum that is too low, "
            "one layer used for two kinds of data, or a frozen part.",
        fix="Compute them anew: reset_running_stats() and momentum=None, one pass over training "
            "data in train() under no_grad. Lasting: larger batches, SyncBatchNorm, or GroupNorm. "
            "Without BatchNorm look at dropout and other code that asks self.training.",
        role="symptom",
        commands=("doctor lint train.py", "doctor scan CHECKPOINT",),
    ),
    Cause(id="preferred-answers-less-likely",
        words=(
            "dpo|orpo|simpo|chosen|preference chosen|rejected|margin|logps|rewards/chosen|"
            "rewards/rejected @fall|negative|down",
        ),
        examples=(
            "DPO rewards of chosen and rejected both decrease",
        ),
        why="DPO only widens the distance of both answers: that the chosen one becomes less "
            "likely, too, is frequent and no fault while margin and accuracy rise.",
        fix="Judge by generations. If these get worse: a lower rate (5e-7), a larger beta, an SFT "
            "term (rpo_alpha, a loss_type with sft), chosen answers near to the model's own.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="latent-not-used",
        words=(
            "posterior_collaps",
            "vae|vaes|autoencoder|latent kl$|latent|samples|reconstruction|outputs @zero|"
            "collaps|vanish|ignor|same|blurry|identical|mean",
        ),
        examples=(
            "posterior collapse in my VAE",
            "VAE samples all look the same",
        ),
        why="The decoder does without the latent: the KL term weighs too much at the start, is "
            "summed where the reconstruction is averaged, or the decoder is strong.",
        fix="Sum or average both terms over the same dimensions, raise the weight of KL from 0 "
            "over the first epochs, or leave free bits; a weaker decoder.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory",),
    ),
    Cause(id="metrics-not-shown",
        words=(
            "no_log",
            "loss|metrics|logs|wandb|tensorboard|training_loss @not>show|log|logged|"
            "display|print|appear|updat",
            "wandb|tensorboard|mlflow empty|@not|nothing",
        ),
        examples=(
            "training loss column says No log",
            "wandb shows no metrics",
        ),
        why="The run is shorter than the interval of logging, or the reports go elsewhere.",
        fix="logging_steps=1 (or a tenth of the steps; the default is 500), report_to with the "
            "tracker's name; Lightning: log_every_n_steps, and self.log in training_step. Only "
            "rank 0 logs.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="loss-jumps-after-resume",
        words=(
            "loss|perplexity|metric|accuracy resum|restart|reload|continu|from_checkpoint|"
            "from_a_checkpoint @rise|jump|spik|high|wors|back",
        ),
        examples=("loss jumps after resume", "the loss is higher after resuming from a checkpoint"),
        why="The state is not the one that was saved: optimizer, scheduler or loss scale were not "
            "loaded, the data begin anew, or the weights are those of another step or dtype.",
        fix="Compare the learning rate and the norm of the gradient before and after. Save and "
            "load optimizer, scheduler, scaler, random state and the position in the data; a spike "
            "of a few steps with a fresh optimizer is normal.",
        role="symptom",
        commands=("doctor scan CHECKPOINT", "doctor lint train.py"),
    ),
    Cause(id="gradient-norm-zero",
        words=(
            "grad|gradient|gradients|grad_norm|grad_norms>@zero|none|vanish",
            "vanish|zero|no$>grad|gradient|gradients",
            "grad|gradient|gradients|grad_norm|grad_norms is|are|always|all>@zero|none|vanish",
        ),
        examples=("grad_norm is 0", "gradients are None", "vanishing gradients"),
        why="The loss does not depend on the parameters: a detach, no_grad, frozen layers, an "
            "integer cast, masked labels, or activations that saturate.",
        fix="List the parameters whose gradient is None or 0 after one backward; the first of them "
            "in the order of the forward shows where the graph ends.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory", "doctor guard -- python train.py"),
    ),
    Cause(id="loss-does-not-fall",
        words=(
            "@loss @not>@fall|improv|learn|go_down|going_down|chang|move !scale "
            "!up_and_down !oscillat",
            "@loss>@same !scale !accumul",
            "@same>loss !scale !accumul",
            "model|network|net$|classifier @not>learn|converg|improv",
        ),
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
        words=(
            "loss ln$|log$|log( number|vocab|class|classes|v$|k$",
            "@loss 0.69|2.30|2.3$|4.6|6.9|10.8|1.09|1.1$|11.9 @same|@not|always|around|"
            "start|exactly",
            "accuracy|loss|result|prediction|model chance|random_guess|guessing|coin_flip|"
            "coin_toss",
        ),
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
        words=(
            "loss>@zero !reward !grad !grpo !discriminator",
        ),
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
        words=(
            "loss|gradient|grad nan$|nans|inf$|infinity",
            "nan$|nans after|step|epoch|train|output|fp16|bf16|mixed|sudden",
        ),
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
        words=(
            "loss diverg|explod|blow",
            "loss>@rise !@eval !accumul !resum !batch_size !up_and_down !gan$ !generator "
            "!discriminator",
            "training|train|run|model diverg|unstable|instab",
        ),
        examples=("loss explodes after a while", "training is unstable", "the loss diverges"),
        why="Steps are too large for the curvature: the learning rate, the warm-up, no clipping, "
            "momentum of Adam that has not settled, or 16-bit weights.",
        fix="Halve the learning rate, warm up over 1 to 5 % of the steps, clip the norm at 1.0, "
            "keep fp32 weights; go back to a checkpoint before the rise.",
        role="symptom",
        commands=("doctor triage train.log", "doctor lint train.py"),
    ),
    Cause(id="loss-spikes-seen",
        words=(
            "loss spik|sudden|bump !resum !restart",
        ),
        examples=("loss spikes during pretraining", "sudden jump of the loss"),
        why="Single batches with outliers, a rate that is high for this stage, or a second moment "
            "of Adam that is out of date.",
        fix="Look at the norm of the gradient just before and at the samples of that step. A spike "
            "that recovers needs nothing; else go back about 100 steps and skip those batches.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="loss-negative",
        words=(
            "loss|losses negative",
        ),
        examples=("loss becomes negative", "negative loss values"),
        why="Normal for log-densities, policies and contrastive bounds. For cross-entropy it means "
            "targets outside 0 to 1, or class indices where probabilities are expected.",
        fix="Check the range of the targets and which form of the loss they belong to.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory",),
    ),
    Cause(id="loss-saw-tooth",
        words=(
            "loss oscillat|fluctuat|nois|zig_zag|zigzag|up_and_down|bounc|wild|jumpy|"
            "saw_tooth|sawtooth",
            "loss period",
        ),
        examples=("loss is oscillating", "noisy training loss"),
        why="Small batches are noisy by nature, diffusion and reinforcement learning most of all. "
            "A period of one epoch means that the data are not shuffled or are memorized.",
        fix="Plot a running mean of 100 steps before you judge. If that does not fall, a third of "
            "the learning rate, a warm-up, clipping at 1.0 or a larger batch; if it has a period, "
            "shuffle (set_epoch).",
        role="symptom",
        commands=("doctor triage train.log", "doctor lint train.py"),
    ),
    Cause(id="steps-at-each-epoch",
        words=(
            "loss|curve|metric each_epoch|every_epoch|epoch_boundar|new_epoch|end_of_epoch|"
            "start_of_epoch|epoch_starts|epoch_begins|between_epochs @fall|step|jump|stair|"
            "sudden !order !batches",
            "staircase|stair_step",
        ),
        examples=("loss drops at each epoch boundary", "staircase shaped loss"),
        why="Usual in fine-tuning and no fault: the model sees samples again and has "
            "memorized them.",
        fix="Compare with the loss on held-out data; use fewer epochs, more data, a lower learning "
            "rate or a smaller rank of LoRA.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="evaluation-worse-than-training",
        words=(
            "@eval>loss|error|perplexity @rise|wors|higher|diverg",
            "@eval accuracy|acc$|score|metric|metrics|f1|performance|results @bad|@fall|"
            "@same|@not|chance|gap",
            "overfit",
            "generaliz|generalis @not|bad|poor",
            "train|training>acc|accuracy|f1|score>@eval>only|just|lower|less|wors",
            "@eval>acc|accuracy|f1>only|just|much_lower",
            "train|training>great|good|well|perfect|fine>bad|badly|fails|poor|wors>@eval|"
            "unseen|new_data",
            "great|good|well|perfect|fine>train>bad|badly|fails|poor|wors>@eval|unseen|"
            "new_data",
        ),
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
        words=(
            "accuracy|acc$|score|scores|auc|f1|r2|results|loss too_good|suspicious|perfect|"
            "100%|1.0$ !discriminator",
            "accuracy|acc$|score|auc|f1|result 99|98|100|perfect|high real|production|new|"
            "unseen|deploy|patients|users @bad|fails|drop",
            "data_leak|leakage|leaking",
        ),
        examples=("accuracy is suspiciously high", "accuracy of 100% at once", "data leakage"),
        why="The answer is in the input: samples of the test set in training, a label among the "
            "features, a causal mask or a shift that is missing.",
        fix="Search duplicates between the splits, and predict from inputs with the later tokens "
            "replaced: the outputs before must not change.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory",),
    ),
    Cause(id="gradient-norm-huge",
        words=(
            "grad|gradient|gradients|grad_norm|grad_norms huge|large|high|explod|thousand|"
            "million|billion|inf$",
        ),
        examples=("gradient norm is huge", "exploding gradients"),
        why="Losses that are summed instead of averaged, a norm logged before it is unscaled, a "
            "missing initialization, or true instability.",
        fix="Divide by the loss scale and by the number of accumulation steps before you judge; "
            "then clip at 1.0 and lower the rate.",
        role="symptom",
        commands=("doctor lint train.py", "doctor guard -- python train.py"),
    ),
    Cause(id="learning-rate-stays-zero",
        words=(
            "learning_rate|lr$ @zero",
        ),
        examples=("learning rate is 0", "learning_rate stays zero"),
        why="The first step of a warm-up has rate 0. Later zeros come from a scheduler that was "
            "built for fewer steps, or that steps once per micro-batch or rank.",
        fix="Print the total number of optimizer steps that the scheduler got, and how often it is "
            "stepped per optimizer step.",
        role="symptom",
        commands=("doctor lint train.py", "doctor triage train.log"),
    ),
    Cause(id="rewards-do-not-rise",
        words=(
            "reward|rewards|reward_std|advantage|advantages @not|@same|collaps|equal|"
            "identical|@zero|drop",
            "grpo|ppo|rloo|reinforce|rlhf|rl$ reward|rewards|reward_std|advantage|advantages|"
            "loss @not|@same|collaps|equal|identical|@zero",
            "kl$ explod|blow|negative|@rise !vae",
        ),
        examples=("reward does not increase", "KL explodes", "reward collapses after 200 steps"),
        why="All answers of a group get one reward, so that advantages are 0; the format is never "
            "met; completions are cut; or the policy left the reference.",
        fix="Log the share of groups with equal rewards, the share of cut completions, and the "
            "text of ten answers. Equal rewards: prompts that the model solves sometimes, a graded "
            "reward, a higher temperature, more generations; cut ones: a longer limit; a policy "
            "that left: a larger KL weight, a lower rate.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="generator-wins-nothing",
        words=(
            "mode_collaps",
            "discriminator|critic loss|win|strong|@zero|accuracy|collaps",
            "gan$|gans generator|loss|sample|image",
        ),
        examples=("mode collapse in my GAN", "discriminator wins"),
        why="The two sides of an adversarial training are out of balance.",
        fix="Lower the critic's rate or its number of steps, use spectral norm or a gradient "
            "penalty; judge by samples, the losses do not fall in a healthy run.",
        role="symptom",
        commands=("doctor run --model FILE.py:factory",),
    ),
    Cause(id="training-not-reproducible",
        words=(
            "reproduc @not|hard|differ|fails|var",
            "results|result|loss|metrics|accuracy|numbers|output|outputs|runs differ|"
            "different|vary|varies seed|seeds|seeding|manual_seed|run|runs|rerun|every_time|"
            "each_time",
            "nondetermin|non_determin|not_determin",
        ),
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

"""Symptoms of a loss, in the words of people: what to look at, and which command decides."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
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
    Cause(id="loss-jumps-after-resume",
        words=(
            "loss before resum|restart|continu|reload after|now|then !kernel !@eval",
            "loss|perplexity|metric|accuracy resum|restart|reload|continu|from_checkpoint|"
            "from_a_checkpoint @rise|jump|spik|high|wors|back|as_large|as_big|large|initial|"
            "starts_from|starts_at|starts_with|like_new|like_that_of|like_epoch|as_in_epoch|"
            "beginning !rate_restart !warm_restart !cosine !sgdr",
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
    Cause(id="gradient-norm-zero", sources=("torch-detach",),
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
            "!up_and_down !oscillat !learning_rate>@zero !lr$>@zero !contrastive !dpo",
            "model|network|net$|lstm|rnn|cnn|transformer|mlp|gan$ @not>learn>anything|at_all",
            "loss_stays",
            "loss|losses nothing_happens|no_progress|no_improvement|no_further|stops_improving|"
            "gets_stuck !resum",
            "@loss>@same !scale !rank !ranks !contrastive !infonce !accumul !spik !sudden !seed "
            "!@loss>@zero !nan$",
            "@same>loss !scale !accumul !seed !get_the_same !gets_the_same",
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
    Cause(id="loss-is-zero", sources=("transformers-31997",),
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
    Cause(id="loss-becomes-nan", sources=("ps-P8",),
        words=(
            "nan$|nans|inf$ only|appear|appears|happens|occurs|comes|get|gets|turns|"
            "becomes|produces|with|for|on$ long|longer|certain|some|random|specific|rank|"
            "sequences|samples|batches|validation|eval|layer|attention !csv !pandas !dataframe "
            "!column !table !dataset",
            "loss|gradient|grad nan$|nans|inf$|infinity",
            "nan$|nans after|step|epoch|train|output|fp16|bf16|mixed|sudden !csv !pandas "
            "!dataframe",
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
    Cause(id="loss-diverges", sources=("ps-P12", "ps-P13"),
        words=(
            "loss diverg|explod|blow",
            "loss_rises !@eval !resum !restart !batch_size",
            "loss>@rise !@eval !accumul !resum !batch_size !up_and_down !gan$ !generator "
            "!discriminator !warm_restart !cosine_restart !sgdr",
            "training|train|run|model diverg|unstable|instab !seed !two_runs !same_run",
            "training|run|fine_tun|finetun|bert collaps|collapses !mode_collaps !gan$ !reward "
            "!entropy !embedding !contrastive !accuracy>collaps",
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
            "loss suddenly|out_of_nowhere|at_once|within @rise|jump|spik|high !resum !restart "
            "!load !@eval",
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
            "loss|curve sine|wave|waves|periodic|cyclic|cycles|oscillat !discriminator "
            "!generator",
            "loss oscillat|fluctuat|nois|zig_zag|zigzag|up_and_down|bounc|wild|jumpy|jumping|"
            "jumps_between|jumps_around|like_crazy|all_over_the_place|"
            "saw_tooth|sawtooth !discriminator !generator",
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
    Cause(id="learning-rate-stays-zero", sources=("transformers-optimization",),
        words=(
            "learning_rate|lr$ @zero !resum|restart !normali !learning_rates",
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
            "reward|rewards flat|not_improv|no_improv|not_increas|no_progress|"
            "does_not_move|plateau|noise|random",
            "clip|clipped|truncated|cut_off completion|completions|responses|answers all|"
            "most|every|nearly|100%|max",
            "reward|rewards|reward_std|advantage|advantages @not|@same|collaps|equal|"
            "identical|@zero|drop",
            "group|answers|completions|generations same|equal|identical>reward|rewards|score|"
            "scores",
            "grpo|ppo|rloo|reinforce|rlhf|rl$ reward|rewards|reward_std|advantage|advantages|"
            "loss @not|@same|collaps|equal|identical|@zero",
            "kl$ explod|blow|@rise !vae",
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
            "same|identical|fixed seed|seeds|config|code|data two|twice|both|runs|run|"
            "trainings|again diverg|differ|apart|not_the_same|deviat|drift|other_result|"
            "other_loss|other_number !@memory !error !learning_rate",
            "reproduc @not|hard|differ|fails|var",
            "results|result|loss|metrics|accuracy|numbers|output|outputs|runs differ|"
            "different|vary|varies seed|seeds|seeding|manual_seed|run|runs|rerun|every_time|"
            "each_time",
            "nondetermin|non_determin|not_determin",
            "seed|seeds|seeding|manual_seed @not|different|vary|varies same|identical|equal|"
            "reproduc|fixed loss|result|results|f1|accuracy|score|numbers|output !prompt !worker",
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
    Cause(id="schedule-not-followed", sources=("accelerate-scheduler",),
        words=(
            "warmup|warm_up|scheduler|schedule|cosine|decay @not|ignor|wrong|no_effect|too_fast|"
            "too_early|too_slow|too_short|twice|constant|flat|jumps !without !no_warm|"
            "no_sched !loss "
            "!accuracy !slurm "
            "!job !gpu",
            "warmup|warm_up longer_than|too_long|never_ends|whole_run|entire_run|more_steps_than "
            "!compile !seconds !minutes",
        ),
        examples=("learning rate warmup seems to be ignored",
            "the cosine schedule ends too early",
            "my scheduler has no effect"),
        why="The scheduler counts other steps than meant: once per micro-batch or per process, "
            "epochs in place of steps, or a total that was computed without accumulation and "
            "ranks. Or another one acts: DeepSpeed's own in its configuration, a checkpoint's "
            "that was loaded, a rate that is set in the loop. Or the "
            "warm-up is as long as the run, so that the rate never reaches its value.",
        fix="Print the rate at each optimizer step, and let the warm-up be 1 to 5 % "
            "of all. Call scheduler.step() once per optimizer step, after optimizer.step(); total "
            "steps = samples / (batch x accumulation x ranks) x epochs. accelerate steps a "
            "prepared scheduler once per process: do not prepare it, or multiply its numbers. "
            "DeepSpeed: set scheduler to auto or leave it out there.",
        role="symptom",
        commands=("doctor triage train.log", "doctor lint train.py"),
    ),
)  # fmt: skip

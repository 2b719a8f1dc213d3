"""Symptoms of a policy that is trained by rewards or preferences, in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="kl-negative",
        words=("kl$|kl_divergence|kld|approx_kl negative|below_zero|below_0|minus !vae",),
        examples=("KL becomes negative in PPO training", "objective/kl is below zero"),
        why="The mean of log-ratios estimates a divergence of 0 or more only over samples of the "
            "policy itself: it is far below 0 where answers are drawn in another way than their "
            "probabilities are computed. Around 0, small negative values are chance.",
        fix="Sample from the policy as it is: do_sample=True, top_k=0, top_p=1.0, temperature 1, "
            "no min_length or repetition penalty; mask the padding, and switch dropout off in "
            "policy and reference. Before the first update both must agree to 1e-3. The estimator "
            "k3 is never negative.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="reward-exploited",
        words=(
            "dpo|rlhf|ppo|grpo|kto|orpo|preference refus|shorter|too_short|bland|evasive|"
            "sycophan|flatter|apolog after|model|answers|responses|everything",
            "reward_hack",
            "dpo|orpo|kto|preference|reward_model accuracy|accuracies|acc$ 1$|1.0$|100%|100_%|"
            "perfect|saturat",
            "reward|rewards|score @rise|goes_up|up$|high|improv|better @bad|hack|cheat|exploit|"
            "meaningless|longer|quality !@not>@rise !@not>improv",
        ),
        examples=("reward goes up but the answers are getting worse", "reward hacking in GRPO"),
        why="The policy has found what the reward counts and what was not meant: length, a format, "
            "phrases that the reward model likes, an answer that a lax parser accepts.",
        fix="Pairs that are told apart at once (accuracy 1.0 in the first steps) differ by form: "
            "length, language, template, who wrote them. Read twenty answers with the highest "
            "rewards, or twenty pairs: what they share is the gap. Close it "
            "(a stricter parser, a penalty on length or repetition, several rewards), raise beta, "
            "and go back to the checkpoint before answers got worse; choose it by an evaluation "
            "that the reward does not see.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="policy-loss-near-zero",
        words=("grpo|rloo|reinforce|ppo|policy loss>@zero !reward !rewards !advantage",),
        examples=("GRPO loss is 0 from the start", "why is the loss zero in GRPO"),
        why="No fault by itself, unless reward_std is 0: advantages of a group have the mean 0, "
            "and with one update per batch their ratio is 1, so that the printed loss is the KL "
            "term alone. The gradient is not 0.",
        fix="Judge by reward, reward_std and grad_norm instead. A fault is reward_std 0 "
            "(frac_reward_zero_std 1): all answers to a prompt get one reward; or grad_norm 0.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="preference-loss-stands",
        words=(
            "dpo|ipo|kto|simpo|reward_model|preference @loss 0.69|0.693|0.6931|ln$",
            "dpo|ipo|kto|preference loss @same",
            "dpo|ipo|kto|preference loss @not>@fall|chang|move|improv",
        ),
        examples=("DPO loss is stuck at 0.693",),
        why="ln 2 is the loss of a policy that equals its reference: its first value in a healthy "
            "run, and the last one where nothing is trained.",
        fix="Print the trainable parameters and the rate. All weights take 5e-7 to 1e-6, LoRA 5e-6 "
            "to 5e-5; an adapter must be loaded with is_trainable=True, and model and ref_model "
            "must be two objects (ref_model=None with PEFT). If margins move but not the loss, "
            "raise beta.",
        role="symptom",
        commands=("doctor triage train.log", "doctor lint train.py"),
    ),
    Cause(id="policy-answers-alike",
        words=(
            "entropy @fall|@zero|collaps|vanish|low|tiny|nothing|disappear|gone grpo|ppo|rl$|"
            "policy|reinforce|rloo|dapo|rollout|completion|completions|exploration|training|reward "
            "!cross_entropy !crossentropy !classif",
            "completion|completions|answers|samples|rollout|rollouts|responses|generations "
            "@alike|no_diversity grpo|ppo|rl$|policy|group|rollout|reward !base !zero "
            "!same>reward|score",
            "diversity|variety lose|lost|loses|@fall|collaps|vanish|gone|no$|low answers|samples|"
            "completions|outputs|rollouts|generat|rl$|grpo|ppo !dataset",
        ),
        examples=("entropy collapses during GRPO",
            "all completions of a group look alike",
            "answers lose their diversity in RL"),
        why="The policy has become sure of one answer: without exploration the rewards of a group "
            "do not differ, and nothing more is learned. A rate that is too high, many updates per "
            "batch, a symmetric clip and sampling at a low temperature speed it up.",
        fix="Go back to a checkpoint before the fall. Sample at temperature 1.0 with top_p 1, "
            "raise the upper clip alone (epsilon_high 0.28), lower the learning rate and the "
            "updates per batch, leave out prompts that are always or never solved, and add a "
            "small entropy bonus or KL term. If answers were alike from the start, the sampling "
            "is greedy.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="sampler-off-policy",
        words=(
            "vllm|sglang|sampler|rollout|rollouts|inference|generation "
            "logprob|logprobs|log_prob|log_probs|logp|logps|probabilities|importance|ratio "
            "differ|mismatch|gap|apart|diverg|@not|grow|grows|off|drift|far !avail",
            "weights|update|updates|sync vllm|sglang|sampler|rollout @not|old|stale|never|late "
            "reach|sync|updat|arriv|weights|policy !load !download",
        ),
        examples=("vllm logprobs differ from the trainer's",
            "rollouts use stale weights, vllm is not updated"),
        why="The texts that are trained on were drawn from another policy than the one that is "
            "trained: the sampler keeps old weights, computes in another precision, or with "
            "another temperature or template.",
        fix="Print the difference of the log-probabilities per token, of sampler and trainer, at "
            "the first step: 0.001 to 0.02 is usual. Large at once: the same dtype, temperature, "
            "template and attention on both sides. Growing with the steps: the update of the "
            "sampler's weights does not arrive (vllm_enable_sleep_mode=False, reset of the prefix "
            "cache, a newer trainer); LoRA must be merged or loaded anew before each round. "
            "Truncated importance sampling corrects what remains.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
    Cause(id="completions-grow",
        words=(
            "completion|completions|response|responses|answer|answers|reasoning length|longer|long "
            "@rise|keeps|explod|longer_and_longer|limit|max$ !memory !oom !slow !stop !reward",
            "overlong|length_hack|length_bias|verbos reward|grpo|ppo|rl$|dpo|completion|answers",
        ),
        examples=("completion length keeps growing until it hits the limit",
            "answers become longer and longer in GRPO"),
        why="The loss or the reward favours length: a mean per sequence makes each token of a long "
            "wrong answer cheap, a reward model likes long texts, or cut answers cost nothing.",
        fix="Average the loss over all tokens of the batch (loss_type dapo or dr_grpo), leave cut "
            "completions out of it (mask_truncated_completions) or let them cost, add a mild "
            "penalty on length near the limit, and give a reward only to an answer that ends. DPO: "
            "balance the lengths of chosen and rejected answers, or a length-normalized loss. "
            "Growth with a rising score of an evaluation is wanted: raise the limit then.",
        role="symptom",
        commands=("doctor triage train.log",),
    ),
)  # fmt: skip

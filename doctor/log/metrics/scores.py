"""Metrics beside losses: scores of evaluations, and what reinforcement learning prints in tables.

Their rows need no loss, so they are read from the text of a log that is short enough to be kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from doctor.log.metrics import beside, by_rank
from doctor.log.metrics.beside import values_beside
from doctor.log.metrics.columns import Columns
from doctor.log.metrics.curves import ALIASES, Curves, plain
from doctor.log.metrics.detector import Detector
from doctor.log.metrics.text import EVALUATION, RATE, SPEED, is_metric_row, metrics_of

SCORE = "score"
"""Curves of a metric of the evaluation, one for each name: score:eval_accuracy."""
OF_VALUES = {
    "value_loss": "value_loss",
    "value loss": "value_loss",
    "value function loss": "value_loss",
    "value_function loss": "value_loss",
    "critic/vf_loss": "value_loss",
    "losses/value_loss": "value_loss",
    "train/value_loss": "value_loss",
    "explained_variance": "explained_variance",
    "explained variance": "explained_variance",
    "train/explained_variance": "explained_variance",
    "critic/vf_explained_var": "explained_variance",
    "losses/explained_variance": "explained_variance",
    "ep_rew_mean": "episode_reward",
    "rollout/ep_rew_mean": "episode_reward",
    "mean reward": "episode_reward",
    "mean total reward": "episode_reward",
    "episode_reward_mean": "episode_reward",
    "charts/episodic_return": "episode_reward",
    "average score": "episode_reward",
    "average100 score": "episode_reward",
    "average reward": "episode_reward",
    "avg reward": "episode_reward",
    "rewards/margins": "preference_margin",
    "number of skipped iterations": "skipped_steps",
    "kl": "latent_kl",
    "kl_loss": "latent_kl",
    "kl loss": "latent_kl",
    "kld": "latent_kl",
    "kl_div": "latent_kl",
    "kld_loss": "latent_kl",
    "codebook_usage": "codebook_usage",
    "codebook usage": "codebook_usage",
    "codebook_utilization": "codebook_usage",
    "active_codes": "codebook_usage",
    "clip_fraction": "clipped_share",
    "train/clip_fraction": "clipped_share",
    "losses/clipfrac": "clipped_share",
    "actor/pg_clipfrac": "clipped_share",
    "objective/kl": "policy_kl",
    "objective/entropy": "policy_entropy",
    "ppo/mean_scores": "reward",
    "objective/scores": "reward",
}
"""Names of metrics of a value function and of a policy's updates."""
_METRICS = (
    r"(?:(?:mean|avg|average)[_-])?(?:(?:balanced_)?accuracy|acc(?:uracy)?[@_]?\d?|top-?\d(?:_acc)?|(?:macro|micro|weighted)?[_-]?"
    r"f1(?:[_-]score)?|mcc|matthews_correlation|auc|auroc|roc_auc|bleu|sacrebleu|rouge-?\w{1,4}|"
    r"precision|recall|exact_match|wer|cer|(?:m|mean_)?io_?u(?:_score)?|dice(?:_coef|_score)?|"
    r"pass@\d{1,3}|success_rate|spearman\w{0,3}|pearson\w{0,3})"
)
_ALONE = (
    r"map50(?:-95)?|map@?\[?[\d.:]{0,9}\]?|bbox_map(?:_50)?|segm_map|coco/bbox_map|miou|wer|cer|"
    r"bleu|sacrebleu|roc_auc|auroc|hr@\d{1,3}|hit(?:s|_rate)?@\d{1,3}|ndcg@\d{1,3}|mrr(?:@\d{1,3})?|"
    r"recall@\d{1,4}|word_acc|pc_success"
)
_NUMBER = r"[-+]?(?:nan\b|inf(?:inity)?\b|\d{1,12}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?)"
_END = (
    r"(%?)(?![\w.%])(?!\s{0,3}/\s{0,3}\d|\s{1,3}(?:out )?of\s{1,3}\d|\s{1,3}(?:images?|samples?|"
    r"examples?|correct|hits?|items?|tokens?|words?|sentences?|predictions?)\b(?!\s{0,3}[:=|/\d]))"
)
"""What is left of a count is none of a score: `9890/10000`, `9 of 10`, `120 images`."""
_IS = (
    r"['\"]?(?:\s{0,30}[:=|]{1,2}\s{0,12}(?:tensor\()?['\"]?|\s{1,4}(?=[-+]?(?:nan\b|inf\b|"
    r"\d{1,9}\.\d)))"
)
SCORES = re.compile(
    rf"(?<![\w/.@-])((?:{'|'.join(EVALUATION)})[/_ -]{{1,2}}(?:{_METRICS}|{_ALONE})|{_ALONE})"
    rf"{_IS}({_NUMBER})(?!%\|){_END}"
)
"""`Map: 100%|###` is the progress of datasets.map."""
SCORE_NAME = re.compile(rf"(?:{'|'.join(EVALUATION)})[/_ -]{{1,2}}(?:{_METRICS}|{_ALONE})|{_ALONE}")
EVALUATES = re.compile(rf"(?<![\w/.@-])({'|'.join(EVALUATION)})(?![\w/.@-])")
IN_EVALUATION = re.compile(rf"(?<![\w/.@-])({_METRICS}){_IS}({_NUMBER})(?!%\|){_END}")
"""A word that makes the scores after it those of an evaluation: `val loss 0.2 auc 0.7`."""
STARRED = re.compile(r"^\s{0,4}\*\s{1,4}((?:acc|prec|top)[@_-]?1)\b:?\s{1,12}(\d{1,3}\.\d{1,6})\b")
"""` * Acc@1 71.2 Acc@5 90.4`, the mean over an evaluation that torch's ImageNet example prints."""
VALUES = re.compile(rf"(?<![\w/.@-])({'|'.join(map(re.escape, OF_VALUES))}){_IS}({_NUMBER}){_END}")
REACHED = re.compile(r"'([\w/@.-]{1,60})' reached (\d{1,9}\.\d{1,9}) \(best")
NOT_REACHED = re.compile(r"'([\w/@.-]{1,60})' was not in top 1\b")
"""What Lightning says of each evaluation, by the metric that its checkpoints are chosen by."""
ENDS_AS_SCORE = re.compile(rf"(?<![a-z])(?:{_METRICS}|{_ALONE})$")
MARKED = re.compile(
    r"\s{1,8}(?:<-{1,2} ?|[^\w\s]{1,3}\s?)?(?:new )?best(?: so far| model)?[^\w\s]{0,3}\s{0,8}$"
)
"""Behind the row of an epoch that is the best so far: `*best*`, `(best)`, `<- best`."""
BEST_SO_FAR = re.compile(
    rf"(?<=[\s,;|])best[_ ](?:\w{{1,30}}[ _]){{0,2}}\w{{1,30}}\s{{0,3}}[:=]\s{{0,3}}{_NUMBER}"
)
"""Beside the value of now: `dice: 0.31, best_dice: 0.44`."""
LATENT = "latent_kl"
RECONSTRUCTS = re.compile(r"\brec(?:on|_loss)|\belbo\b")
"""Beside it a KL divergence is that of an autoencoder's latents, not of a policy."""
NOTEBOOK = re.compile(r"^\W{0,4}step\s{0,20}\|?\s{1,20}training loss\b(.{0,40}validation loss)?")
NOTEBOOK_ROW = re.compile(
    r"^\W{0,4}(\d{1,9})(?:\s{1,20}\|?\s{0,20}|\s?\|\s?)([\d.]{3,12}|nan|no log)\b(.*)$"
)
"""The Trainer's table in a notebook: `500 | 0.123400 | 0.234500`."""
CUES = (
    "skipped", "kl", "codebook", "codes", "value", "explained", "clip", "rew", "return", "|",
    "mean_scores", "average", "entropy", "training loss", "* acc", "* prec", "* top",
    *EVALUATION, *_ALONE.replace("\\", "").split("|"),
)  # fmt: skip
TIMES = ("epoch_time", "step_time", "throughput", SPEED, "iteration_time", "data_time")
BY_NAME = (*TIMES, RATE, "discriminator_loss", "generator_loss")
"""Curves whose rows may have no word of a loss, which makes other rows those of metrics."""
NAMES = ("time", "_s:", "sec", "step_avg", "/s", "lr", "learning", "d_a:", "d_real:", "speed")
ALL_CUES = (*CUES, *beside.CUES, *by_rank.CUES, *NAMES, "all", "loss")
SPEEDS = {
    **dict.fromkeys(("it_s", "iter_s", "iters_s", "step_s", "steps_s"), SPEED),
    **dict.fromkeys(("s_it", "s_iter", "sec_it", "sec_iter", "s_step", "sec_step"), "step_time"),
}
"""Names of columns; in other rows they are units of the number before them."""
FEW, LONGEST_RATE = 3, 140
"""Rows with nothing but a learning rate that stand between those of losses, from which on they are
no settings, and the characters of such a row. Our own numbers."""


def curve_of(name: str) -> str:
    """The curve that a column or a field of this name is of; "" for none."""
    return (
        ALIASES.get(plain(name))
        or SPEEDS.get(plain(name))
        or (f"{SCORE}:{name.lower()}" if SCORE_NAME.fullmatch(_without_unit(name.lower())) else "")
    )


def _without_unit(name: str) -> str:
    return name.partition("(")[0].strip(" %")


def read_scores(lines: Sequence[tuple[int, str]], curves: Curves) -> None:
    """Add what the lines name, each with its number, a row for each line."""
    lowered = [(number, line[:4096].lower()) for number, line in lines]
    detector, columns, beside, has_loss = Detector(), Columns(curve_of), Beside(), None
    monitored = Monitored()
    for number, lower in lowered:
        values = detector.read(lower) | monitored.read(lower)
        for name, value in _values(lower):
            values.setdefault(name, value)
        scores = {name: each for name, each in values.items() if name.startswith(SCORE)}
        if len(curves.repeated.fresh(lower, scores)) < len(scores):
            values = {name: each for name, each in values.items() if name not in scores}
        step, named = beside.read(number, lower)
        curves.append(step, named | values, number)
        if row := columns.read(lower):
            curves.append(*row, number)
        if header := NOTEBOOK.match(lower):
            has_loss = bool(header[1])
        elif has_loss is not None:
            _read_notebook(number, lower, has_loss, curves)
    beside.end(curves)
    some = [(n, lower) for n, lower in lowered if by_rank.NAMES_RANKS.search(lower)]
    for number, found in groupby(by_rank.values_by_rank(some), key=itemgetter(0)):
        curves.append(None, {name: value for _, name, value in found}, number)


class Monitored:
    """Scores by which Lightning chooses checkpoints, as long as they are 0: above it, it prints
    only the best ones."""

    def __init__(self) -> None:
        self._zero: set[str] = set()

    def read(self, lower: str) -> dict[str, float]:
        values = {}
        for name, value in REACHED.findall(lower):
            if ENDS_AS_SCORE.search(name) and (name in self._zero or not float(value)):
                self._zero.add(name)
                values[f"{SCORE}:{name}"] = float(value)
                if float(value):
                    self._zero.discard(name)
        return values | {
            f"{SCORE}:{name}": 0.0 for name in NOT_REACHED.findall(lower) if name in self._zero
        }


class Beside:
    """What rows without a loss name: times, the losses of an adversarial training, and learning
    rates that have a row of their own."""

    def __init__(self) -> None:
        self._rates: list[tuple[int | None, dict[str, float], int]] = []
        self._trains = True

    def read(self, number: int, lower: str) -> tuple[int | None, dict[str, float]]:
        """The step of a row, and its curves."""
        if is_metric_row(lower.encode()):
            self._trains = True
            return None, {}
        if not any(name in lower for name in NAMES):
            return None, {}
        found, step = metrics_of(lower.encode())
        named = {name: each for name, each in found.items() if name in BY_NAME}
        if named.keys() != {RATE}:
            self._trains = self._trains or bool(named)
            return step, named
        if self._trains and len(lower) <= LONGEST_RATE:
            self._rates.append((step, named, number))
        self._trains = False
        return None, {}

    def end(self, curves: Curves) -> None:
        """Add the rates, unless there are so few that they are settings."""
        for row in self._rates if len(self._rates) >= FEW else ():
            curves.append(*row)


def _read_notebook(number: int, lower: str, evaluates: bool, curves: Curves) -> None:
    """A row of the Trainer's table: the step, the loss, that of the evaluation."""
    row = NOTEBOOK_ROW.match(lower)
    if row is None:
        return
    values = {} if row[2] == "no log" else {"loss": float(row[2])}
    if evaluates and (held_out := re.match(rf"[\s|]{{1,40}}({_NUMBER})", row[3])):
        values["eval_loss"] = float(held_out[1])
    curves.append(int(row[1]), values, number)


def _values(lower: str) -> Iterator[tuple[str, float]]:
    yield from values_beside(lower)
    lower = BEST_SO_FAR.sub("", MARKED.sub("", lower)) if "best" in lower else lower
    if "best" in lower or ("|" not in lower and not any(word in lower for word in CUES)):
        return
    found = SCORES.findall(lower)
    for name, value, percent in found:
        yield f"{SCORE}:{name.rstrip(':')}", _share(value, percent)
    for name, value in STARRED.findall(lower):
        yield f"{SCORE}:{name}", float(value)
    kind = None if found else EVALUATES.search(lower)
    if kind and "train" not in lower[kind.end() :]:
        for name, value, percent in IN_EVALUATION.findall(lower, kind.end()):
            yield f"{SCORE}:{kind[1]} {name}", _share(value, percent)
    for name, value, percent in VALUES.findall(lower):
        curve = OF_VALUES[name]
        if curve != LATENT or RECONSTRUCTS.search(lower):
            yield curve, _share(value, percent)


def _share(value: str, percent: str) -> float:
    """Per cent as a share; more than all stays as it is printed."""
    number = float(value)
    return number / 100 if percent and number <= 100 else number

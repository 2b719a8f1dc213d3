"""Metrics beside losses: scores of evaluations, and what reinforcement learning prints in tables.

Their rows need no loss, so they are read from the text of a log that is short enough to be kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from doctor.log.metrics.beside import values_beside
from doctor.log.metrics.curves import Curves
from doctor.log.metrics.text import EVALUATION

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
    "critic/vf_explained_var": "explained_variance",
    "losses/explained_variance": "explained_variance",
    "ep_rew_mean": "episode_reward",
    "rollout/ep_rew_mean": "episode_reward",
    "mean reward": "episode_reward",
    "mean total reward": "episode_reward",
    "episode_reward_mean": "episode_reward",
    "charts/episodic_return": "episode_reward",
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
    "losses/clipfrac": "clipped_share",
    "actor/pg_clipfrac": "clipped_share",
}
"""Names of metrics of a value function and of a policy's updates."""
_METRICS = (
    r"(?:balanced_)?accuracy|acc(?:uracy)?[@_]?\d?|top-?\d(?:_acc)?|(?:macro|micro|weighted)?[_-]?"
    r"f1(?:[_-]score)?|mcc|matthews_correlation|auc|auroc|roc_auc|bleu|sacrebleu|rouge-?\w{1,4}|"
    r"precision|recall|exact_match|wer|cer|miou|iou|dice|pass@\d{1,3}|success_rate|spearman\w{0,3}|pearson\w{0,3}"
)
_ALONE = (
    r"map50(?:-95)?|map@?\[?[\d.:]{0,9}\]?|bbox_map(?:_50)?|segm_map|coco/bbox_map|miou|wer|cer|"
    r"bleu|sacrebleu|roc_auc|auroc|hr@\d{1,3}|hit(?:s|_rate)?@\d{1,3}|ndcg@\d{1,3}|mrr(?:@\d{1,3})?|"
    r"recall@\d{1,4}|word_acc|pc_success"
)
_NUMBER = r"[-+]?(?:nan\b|inf(?:inity)?\b|\d{1,12}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?)"
_END = r"(%?)(?![\w.])"
_IS = (
    r"['\"]?(?:\s{0,30}[:=|]{1,2}\s{0,12}(?:tensor\()?['\"]?|\s{1,4}(?=[-+]?(?:nan\b|inf\b|"
    r"\d{1,9}\.\d)))"
)
SCORES = re.compile(
    rf"(?<![\w/.@-])((?:{'|'.join(EVALUATION)})[/_ -]{{1,2}}(?:{_METRICS}|{_ALONE})|{_ALONE})"
    rf"{_IS}({_NUMBER})(?!%\|){_END}"
)
"""`Map: 100%|###` is the progress of datasets.map."""
VALUES = re.compile(rf"(?<![\w/.@-])({'|'.join(map(re.escape, OF_VALUES))}){_IS}({_NUMBER}){_END}")
HEADER = re.compile(r"\bclass\s+images\s+instances\s+box\(p\s+r\s+map50")
"""Above a row of Ultralytics' evaluation, whose last two columns are scores."""
ROW_OF_ALL = re.compile(r"^\s*all\s+\d+\s+\d+\s+((?:[\d.e+-]+\s*){4,8})$")
LATENT = "latent_kl"
RECONSTRUCTS = re.compile(r"\brecon")
"""Beside it a KL divergence is that of an autoencoder's latents, not of a policy."""
CUES = (
    "skipped", "kl", "codebook", "codes", "value", "explained", "clip", "rew", "return", "|",
    *EVALUATION, *_ALONE.replace("\\", "").split("|"),
)  # fmt: skip


def read_scores(text: str, curves: Curves) -> None:
    """Add what the lines name, a row for each line."""
    for number, rows in groupby(_values(text.splitlines()), key=lambda found: found[0]):
        values: dict[str, float] = {}
        for _, name, value in rows:
            values.setdefault(name, value)
        curves.append(None, values, number)


def _values(lines: Iterable[str]) -> Iterator[tuple[int, str, float]]:
    is_table = False
    for number, line in enumerate(lines, 1):
        lower = line[:4096].lower()
        if row := is_table and ROW_OF_ALL.match(lower):
            yield number, f"{SCORE}:map50", float(row[1].split()[2])
        is_table = bool(HEADER.search(lower)) or (is_table and not row and "%|" in lower)
        for name, value in values_beside(lower):
            yield number, name, value
        if "best" in lower or ("|" not in lower and not any(word in lower for word in CUES)):
            continue
        for name, value, percent in SCORES.findall(lower):
            yield number, f"{SCORE}:{name}", float(value) / (100 if percent else 1)
        for name, value, percent in VALUES.findall(lower):
            curve = OF_VALUES[name]
            if curve != LATENT or RECONSTRUCTS.search(lower):
                yield number, curve, float(value) / (100 if percent else 1)

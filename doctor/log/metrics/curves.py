"""The curves of one source, thinned while they grow."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from doctor._util.records import Number
from doctor.facts.log import Curve
from doctor.log.metrics.repeated import Repeated

MOST, FEWEST = 4096, 256
"""Values of a curve that are held; beyond that every second one is dropped. Fewer, but as many as
the last, where there are many files: the ranks of a run log the same curve."""
JOINED = 3
"""Lines within which rows of other metrics are of one step: a dictionary over several lines."""
ENOUGH = 64
"""Values of the first rows of a file that are held in any case."""
EPOCHS = 3
"""Epochs by which their count falls where a training begins: the ranks of one differ by fewer. Our
own number."""
TOGETHER = 4 * MOST
"""Values of one metric in all files."""

CURVES = {
    "loss": (
        "loss train_loss trainloss training_loss lm_loss loss_train train_lm_loss step_loss "
        "total_loss train_total_loss reduced_train_loss train_loss_step loss_step "
        "train_crossentropyloss loss_train_total main_loss xent"
    ),
    "mean_loss": "avr_loss avg_loss mean_loss running_loss epoch_loss train_loss_epoch",
    "grad_norm": (
        "grad_norm train_grad_norm gradient_norm gnorm total_norm actor_grad_norm "
        "optim_total_grad_norm train_grad_norm_before_clip"
    ),
    "learning_rate": (
        "learning_rate train_learning_rate lr train_lr actor_lr current_lr optim0_lr0 lr_adam "
        "lr_adamw lr_sgd lr_adamw_group0 lr_decoupledadamw_group0 optim_learning_rate "
        "train_lr(1e_3)"
    ),
    "loss_scale": "loss_scale",
    "throughput": (
        "tokens_per_second tokens_s tokens_per_sec throughput tgs tok_s tokens_sec "
        "tokens_per_gpu_per_second tok_per_sec tokens_per_s tps throughput_per_gpu_(tflop_s_gpu)"
    ),
    "speed": (
        "samples_per_second samples_s train_samples_per_second samples_sec images_s images_sec "
        "img_s images_per_second it_sec train_speed(iter_s)"
    ),
    "sequence_length": (
        "actual_seqlen seqlen seq_len sequence_length img_size image_size resolution imgsz"
    ),
    "step_time": (
        "elapsed_time_per_iteration_(ms) step_time time_per_step iter_time batch_time ms_batch "
        "train_step_timing_in_s step_avg step_avg_ms updt_s sec_per_batch"
    ),
    "epoch_time": "epoch_time epoch_time(s) time_this_epoch time_per_epoch time_taken",
    "eval_loss": (
        "eval_loss val_loss valloss valid_loss validation_loss dev_loss loss_val loss_eval "
        "loss_validation val_loss_epoch validation_main_loss"
    ),
    "test_loss": "test_loss testloss",
    "discriminator_loss": (
        "d_loss loss_d loss_disc disc_loss discriminator_loss d_a d_real loss_d_real"
    ),
    "generator_loss": (
        "g_loss loss_g loss_gen gen_loss generator_loss g_a g_gan loss_g_gan loss_g_fake"
    ),
    "data_time": (
        "data_time data_(t) data_load_time data_loading_time dataloader_time time_data data"
    ),
    "iteration_time": "batch_(t) time_iter time",
    "rollout_gap": (
        "training_rollout_probs_diff_mean rollout_corr_kl mismatch_kl mismatch_kl_mean "
        "sampling_sampling_logp_difference_mean"
    ),
    "policy_kl": "kl actor_ppo_kl actor_kl_loss objective_kl",
    "policy_entropy": (
        "entropy actor_entropy actor_entropy_loss objective_entropy policy_entropy_avg"
    ),
    "answer_length": "completions_mean_length completion_length response_length_mean",
    "cut_off_share": "completions_clipped_ratio response_length_clip_ratio",
    "reward": (
        "reward train_reward mean_reward reward_mean critic_score_mean critic_rewards_mean "
        "objective_scores"
    ),
    "reward_spread": "reward_std train_reward_std critic_advantages_max",
}
"""Curves -> names of metrics in logs, as `plain` writes them."""
ALIASES = {alias: curve for curve, names in CURVES.items() for alias in names.split()}
PLAIN = str.maketrans(dict.fromkeys(" /.-", "_"))


def plain(name: str) -> str:
    """A name in lower case, whatever separates its words: train/loss, train-loss, Train Loss."""
    return name.lower().translate(PLAIN)


HELD_OUT, TESTED = "eval_loss", "test_loss"
"""The curve of an evaluation, and that of a test, often of other data at the end of a run."""
OTHER = "loss:"
"""Before the name of a loss that is none of these; the one with the most values is taken for the
loss of a log that has no other."""
DATA_TIME, STEP_TIMES = "data_time", ("iteration_time", "step_time")
"""Times of one row: how long a step waited for its data, and how long it took in all. A time
without the other one may be of anything."""
LOSSES = {"loss", "mean_loss", "discriminator_loss"}
BESIDE = {
    DATA_TIME, STEP_TIMES[0], "rollout_gap", "policy_kl", "policy_entropy", "answer_length",
    "cut_off_share", "sequence_length",
}  # fmt: skip
"""Curves that are read together with others."""
OF_POLICY = {
    "rollout_gap", "policy_entropy", "answer_length", "cut_off_share", "reward", "reward_spread",
}  # fmt: skip
"""Curves that only a training of a policy logs."""
STEPS = (
    "step", "global_step", "train_global_step", "iteration", "iter", "_step", "steps", "it",
    "current_steps",
)  # fmt: skip
"""Names of the step in logs, in the order in which they are preferred."""


def most_values(files: int) -> int:
    """Values that are held of each curve of so many files."""
    return max(FEWEST, min(MOST, TOGETHER // max(1, files)))


@dataclass(slots=True)
class _Series:
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    points: int = 0
    rows: int = 0
    """Values whose row names no step."""

    def thin(self, most: int) -> None:
        """Drop every second finite value of so many."""
        indices = [
            index
            for index, value in enumerate(self.values)
            if index % 2 == 0 or not math.isfinite(value)
        ]
        if len(indices) > most * 3 // 4:  # nearly all are NaN: the first ones tell enough
            indices = indices[: most // 2]
        self.steps = [self.steps[index] for index in indices]
        self.values = [self.values[index] for index in indices]
        self.lines = [self.lines[index] for index in indices]


@dataclass(slots=True)
class Curves:
    """The curves of one file."""

    path: str
    rank: int | None = None
    most: int = MOST
    rows_of_file: int = 0
    """Rows of a file that holds nothing but metrics."""
    thinned: int = 1
    """One of this many rows is kept."""
    last_step: int | None = None
    step: int | None = None
    """Of the last row, None if it named none."""
    batch: int | None = None
    """Of the pass of an evaluation that the last row was of."""
    repeated: Repeated = field(default_factory=Repeated)
    begun: list[int] = field(default_factory=list)
    """Lines at which the count of epochs is back at its first number."""
    _epochs: tuple[int, int] | None = None
    """The first number, and the last one."""
    _rows: int = 0
    _series: dict[str, _Series] = field(default_factory=dict)
    _open: tuple[int, int, set[str]] = (0, -JOINED, set())
    """Step, line and curves of the last row that named no step."""

    def expect(self, rows: int, share: float) -> None:
        """Begin thinned where the first rows, a share of the file, promise far too many.

        So many are held as would be in the end, and of these first rows enough to judge.
        """
        fewest = min(rows / ENOUGH, rows / share / self.most)
        if fewest >= 2:
            self.thinned = 1 << int(math.log2(fewest))

    def wants(self, nonfinite: bool) -> bool:
        """Whether to read the next row: every one, until there are too many."""
        self._rows += 1
        return nonfinite or self._rows % self.thinned == 0

    def until_wanted(self) -> int:
        """Rows of finite metrics to pass over until one is wanted."""
        return -(self._rows + 1) % self.thinned

    def pass_over(self, rows: int) -> None:
        """Count rows, of which the last one may be read afterwards."""
        self._rows += rows

    def count(self, epoch: int, line: int) -> None:
        """The epoch of a row: where it falls back to the first one, another training begins."""
        first, last = self._epochs or (epoch, epoch)
        if epoch <= first <= last - EPOCHS:
            self.begun.append(line)
        self._epochs = min(first, epoch), epoch

    @property
    def has_loss(self) -> bool:
        return any(name in LOSSES or OTHER in name for name in self._series)

    def add(self, step: int | None, row: dict[str, float], line: int = 0) -> None:
        """One row of metrics by their names in the log; unknown names are passed over."""
        named: dict[str, float] = {}
        for name, value in row.items():
            if curve := ALIASES.get(plain(name)):
                named.setdefault(curve, value)
        self.append(step, named, line)

    def append(
        self, step: int | None, values: dict[str, float], line: int, *, again: bool = False
    ) -> None:
        """One row of metrics by the names of their curves; `again` in place of the last one."""
        if again and self._replace_last(values, line):
            return
        if DATA_TIME in values or STEP_TIMES[0] in values:
            values = _with_pairs_of_times(values)
        step = self.step = self._counted(step)
        named, is_full = step is not None, False
        if step is None and values:
            step = self._unnamed_step(set(values), line)
        for curve, value in values.items():
            series = self._series.get(curve)
            if series is None:
                series = self._series[curve] = _Series()
            series.points += 1
            series.rows += not named
            series.steps.append(series.points if step is None else step)
            series.values.append(value)
            series.lines.append(line)
            is_full = is_full or len(series.values) >= self.most
        if is_full:
            self.thinned *= 2
            for series in self._series.values():
                series.thin(self.most)

    def _counted(self, step: int | None) -> int | None:
        """The step, if it can be one; the last one is kept."""
        if step is None or not 0 <= step < 2**53:
            return None
        self.last_step = max(step, self.last_step or 0)
        return step

    def _replace_last(self, values: dict[str, float], line: int) -> bool:
        """Put values in the place of the last ones of their curves, if there are such."""
        for curve in values.keys() & self._series.keys():
            self._series[curve].values[-1] = values[curve]
            self._series[curve].lines[-1] = line
        return values.keys() <= self._series.keys()

    def _unnamed_step(self, names: set[str], line: int) -> int | None:
        """The number of the row, or of the one just before it whose metrics are others."""
        step, last, own = self._open
        if 0 < line - last <= JOINED and not names & own:
            self._open = (step, line, own | names)
        elif self._rows:
            self._open = (self._rows, line, names)
        else:
            return None
        return self._open[0]

    def curves(self) -> tuple[Curve, ...]:
        return tuple(
            Curve(
                name=name,
                path=self.path,
                rank=self.rank,
                steps=tuple(series.steps),
                values=tuple(map(_number, series.values)),
                lines=tuple(series.lines),
                points=series.points,
                thinned=self.thinned,
                counts="row" if series.rows == series.points else "step",
            )
            for name, series in sorted(_held_out(self._series).items(), key=_is_beside)
        )


def _held_out(series: dict[str, _Series]) -> dict[str, _Series]:
    """The losses of a test set are those of the evaluation where there are no more of another."""
    own = {name: each for name, each in series.items() if name != TESTED and OTHER not in name}
    if not own.keys() & OF_POLICY:  # a variational autoencoder has a KL, too
        own.pop("policy_kl", None)
    tested, evaluated = series.get(TESTED), series.get(HELD_OUT)
    if tested is not None and (evaluated is None or tested.points > evaluated.points):
        own[HELD_OUT] = tested
    others = [each for name, each in series.items() if OTHER in name]
    if others and not own.keys() & LOSSES:
        own["loss"] = max(others, key=lambda each: each.points)
    return own


def _is_beside(item: tuple[str, _Series]) -> bool:
    """Whether a curve explains others, so that it comes after them."""
    return item[0] in BESIDE


def _with_pairs_of_times(values: dict[str, float]) -> dict[str, float]:
    if DATA_TIME in values and any(name in values for name in STEP_TIMES):
        return values
    return {k: v for k, v in values.items() if k not in (DATA_TIME, STEP_TIMES[0])}


def _number(value: float) -> Number:
    """As facts hold it: JSON has no NaN."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"

"""Scores, tables of reinforcement learning, and what stands beside metrics, in text."""

from __future__ import annotations

import pytest
from logs import problems, read

from doctor.log.metrics.curves import Curves
from doctor.log.metrics.scores import read_scores

TABLE = """
| rollout/                |             |
|    ep_rew_mean          | -1.5085e+05 |
| train/                  |             |
|    explained_variance   | 5.96e-08    |
|    value_loss           | 8.610e+05   |
"""
DETECTOR = """
                 Class     Images  Instances      Box(P          R     mAP50  mAP50-95): 100%|#| 1/1
                   all       1210          0          0          0       0.25          0
"""


def values(text: str) -> dict[str, list[float]]:
    curves = Curves("train.log")
    read_scores(list(enumerate(text.splitlines(), 1)), curves)
    return {each.name: [float(value) for value in each.values] for each in curves.curves()}


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (TABLE, "episode_reward", -150850.0),
        (TABLE, "explained_variance", 5.96e-08),
        (TABLE, "value_loss", 861000.0),
        ("     Value function loss: inf", "value_loss", float("inf")),
        (DETECTOR, "score:map50", 0.25),
        ("{'eval_accuracy': 0.8125, 'epoch': 1.0}", "score:eval_accuracy", 0.8125),
        ("epoch 3 val_f1 0.4000", "score:val_f1", 0.4),
        ("dev WER 100.00%", "score:dev wer", 1.0),
        ("'rewards/margins': 0.0", "preference_margin", 0.0),
        ("train 0.2 | recon 0.1 | kl 0.0004", "latent_kl", 0.0004),
        ("number of skipped iterations:  10 |", "skipped_steps", 10.0),
        ("loss 1.2 gpu_mem 11.5 GiB", "device_memory", 11.5),
        ("loss 1.2 | max mem: 2048M", "device_memory", 2.0),
        ("step 9 rss=20.5GB", "host_memory", 20.5),
        ("Dropped 49,812 of 50,000 samples", "samples_left_out", 0.99624),
        ("step seconds r0:0.7 r1:0.7 r2:1.4 r3:0.7", "slowest_rank", 2.0),
        ("  Num examples = 1", "samples", 1.0),
    ],
)
def test_what_is_read(text: str, name: str, value: float) -> None:
    assert values(text)[name] == [pytest.approx(value)]


@pytest.mark.parametrize(
    "text",
    [
        "best val_acc 0.91",  # of another epoch
        "train acc 0.91",
        "actor/kl 0.0004",  # of a policy: no reconstruction beside it
        "Removed 12 of 20 unused parameters",
        "Skipped 3 of 4 steps",
        "loss r0:1.1 r1:1.2 r2:1.9 r3:1.1",  # no times
        "wait seconds r0:1.2 r1:1.2 r2:0.1 r3:1.2",
        "memory: 8713",  # without a unit
        "Map: 100%|##########| 18422/18422 [00:01<00:00, 9901.33 examples/s]",
        "|    ep_len_mean          | 200         |",
    ],
)
def test_what_is_none(text: str) -> None:
    assert values(text) == {}


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("GPU available: True (cuda), used: False", "gpu-not-used"),
        ("trainable params: 0 || all params: 7 || trainable%: 0.0", "nothing-trainable"),
        ("Transferred 0/499 items from pretrained weights", "weights-not-loaded"),
        ("EarlyStopping(monitor=val_loss, mode=max)", "monitored-in-the-wrong-direction"),
        ("train: 0 images, 7426 backgrounds, 0 corrupt", "labels-not-found"),
        (
            "UserWarning: Using a target size (torch.Size([32])) that is different to the input "
            "size (torch.Size([32, 1])).",
            "targets-broadcast",
        ),
        ("[INFO] Setting ds_accelerator to cpu (auto detect)", "gpu-not-used"),
        ("[INFO] Setting ds_accelerator to cuda (auto detect)", ""),
        (
            "EarlyStopping(monitor='val_loss', mode='min'), ModelCheckpoint(monitor='val_acc', "
            "mode='max')",
            "",
        ),
        (
            "ModelCheckpoint(monitor='val_acc', mode='max'), Early(monitor='val_loss', mode='min')",
            "",
        ),
        ("Non-trainable params: 0", ""),
        ("0         Non-trainable params", ""),
        ("Transferred 493/499 items from pretrained weights", ""),
        ("missing_keys=['head.weight'], unexpected_keys=['fc.weight']", ""),
        ("train: 12 images, 3 backgrounds, 0 corrupt", ""),
        ("GPU available: True (cuda), used: True", ""),
        ("The operator 'aten::cumsum' is not supported on MPS and will fall back to the CPU.", ""),
    ],
)
def test_lines_that_are_warned_of_while_the_training_goes_on(line: str, slug: str) -> None:
    steps = "".join(f"step {step} loss: {3 - step / 100:.2f}\n" for step in range(1, 9))
    assert set(problems(read(log=f"{line}\n{steps}"))) == ({slug} if slug else set())

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

OLDER = """
     Epoch   gpu_mem       box       obj       cls     total    labels  img_size
    42/299     65.1G    1e-05    0.5         0       0.5      1963       320: 100%|#| 729/729
               Class      Images      Labels           P           R      mAP@.5  mAP@.5:.95: 100%
                 all       20987      129965       0.845       0.524        0.59       0.318
"""
COCO = " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = {}\n"
LOSSES = "Epoch GPU_mem box_loss cls_loss dfl_loss Instances Size\n"


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
        (OLDER, "score:map50", 0.59),
        (OLDER, "loss", 0.50001),
        (COCO.format("0.125"), "score:coco ap", 0.125),
        ("step loss sec/iter\n100 2.5 0.75", "step_time", 0.75),
        ("step loss it/s\n100 2.5 5.1", "speed", 5.1),
        ("[100/500] Time 8.5 (4.0) Data 0.001 (3.0)", "data_share", 0.75),
        ("{'eval_accuracy': 0.8125, 'epoch': 1.0}", "score:eval_accuracy", 0.8125),
        ("epoch 3 val_f1 0.4000", "score:val_f1", 0.4),
        ("dev WER 100.00%", "score:dev wer", 1.0),
        ("ep 0 val loss 0.22 auc 0.5000 acc 0.94", "score:val auc", 0.5),
        ("step loss lr it/s\n 100 2.5 1.0e-05 5.1", "loss", 2.5),
        ("step loss lr it/s\n 100 | 2.5 | 1.0e-05 | 5.1", "learning_rate", 1e-5),
        (f"{LOSSES}1/9 1.6G 1.0 0.5 0.25 13 640: 100%|##| 9/9", "loss", 1.75),
        ("| train/clip_fraction | 0.395 |", "clipped_share", 0.395),
        ("'rewards/margins': 0.0", "preference_margin", 0.0),
        ("train 0.2 | recon 0.1 | kl 0.0004", "latent_kl", 0.0004),
        ("number of skipped iterations:  10 |", "skipped_steps", 10.0),
        ("loss 1.2 gpu_mem 11.5 GiB", "device_memory", 11.5),
        ("loss 1.2 | max mem: 2048M", "device_memory", 2.0),
        ("step 9 rss=20.5GB", "host_memory", 20.5),
        ("Dropped 49,812 of 50,000 samples", "samples_left_out", 0.99624),
        ("Dropped 51976 samples longer than 256 (24 remain)", "samples_left_out", 1 - 24 / 52000),
        ("Dataset: 120000 examples; after filtering: 120", "samples_left_out", 0.999),
        ("24 samples after filtering (48,000 before)", "samples_left_out", 0.9995),
        ("removed 3 empty rows, 49,997 left", "samples_left_out", 0.00006),
        ("Filtered out 95000 texts above 512 tokens, 5000 remain", "samples_left_out", 0.95),
        ("step seconds r0:0.7 r1:0.7 r2:1.4 r3:0.7", "slowest_rank", 2.0),
        ("  Num examples = 1", "samples", 1.0),
        ("Map: 100%|#####| 18422/18422 [00:01<00:00, 99.3 examples/s]", "samples_prepared", 18422),
        ("WARNING Skipping this abnormal example.", "sample_refused", 1.0),
        ("perf/cpu_memory_used_gb:435.5 - perf/throughput:15", "host_memory", 435.5),
        ("[sysmon h1] rss rank0 411G  node used 1102G", "host_memory", 411.0),
        ("CPU Virtual Memory:  used = 471.06 GB, percent = 93.7%", "host_memory", 471.06),
        ("[Batch 0] cuda0 allocated 3.10G reserved 3.60G", "device_memory", 3.1),
        ("MA 10.5 GB Max_MA 11.0 GB CA 12.0 GB", "device_memory", 10.5),
        ('{"gpu_mem_gb": 20.25}', "device_memory", 20.25),
        ("data_wait 9.0s forward+backward 0.75s optimizer 0.25s", "data_share", 0.9),
        ("step_time: 0.40s | data_loading: 0.30s", "data_share", 0.75),
        ("data fetch: 300.0ms, fwd: 60.0ms, bwd: 40.0ms", "data_share", 0.75),
        ("[dcgm] sm_active avg(8 gpu) 7.4%", "gpu_busy", 7.4),
        ("step 9 gpu_util: 23% loss 1.2", "gpu_busy", 23.0),
        ("[it 50] r0 8.3422 r1 8.3422 | lr 5.0e-05", "ranks_alike", 1.0),
        ("step 8 loss rank0=2.3101 rank1=2.2917", "ranks_alike", 0.0),
        ("losses of the ranks: [2.3101, 2.3101]", "ranks_alike", 1.0),
        ("objective/kl -1.5 objective/entropy 84.4", "policy_kl", -1.5),
    ],
)
def test_what_is_read(text: str, name: str, value: float) -> None:
    assert values(text)[name] == [pytest.approx(value)]


@pytest.mark.parametrize(
    "text",
    [
        "best val_acc 0.91",  # of another epoch
        "train acc 0.91",
        "step loss lr it/s\n100 2.5 1.0e-05",  # of fewer columns
        "step loss lr it/s\nstep size lr it/s\n100 2.5 1.0e-05 5.1",  # of another table
        f"{LOSSES}1/9 1.6G 1.0 0.5 0.25 13 640:  10%|# | 1/9",  # not at its end
        "actor/kl 0.0004",  # of a policy: no reconstruction beside it
        "Removed 12 of 20 unused parameters",
        "Skipped 3 of 4 steps",
        "loss r0:1.1 r1:1.2 r2:1.9 r3:1.1",  # no times
        "wait seconds r0:1.2 r1:1.2 r2:0.1 r3:1.2",
        "memory: 8713",  # without a unit
        "Map:  50%|#####     | 9211/18422 [00:01<00:00, 9901.33 examples/s]",
        "rank 0 grad_norm 1.2345 rank 1 grad_norm 1.2345",  # reduced over the ranks
        "Skipping 2 samples per gradient step",
        "Resuming: skipped 9000 samples that were seen before, 1000 samples left in this epoch",
        "Skipped 9000 of 10000 samples that were already processed",
        "Dedup: removed 900000 duplicates, 100000 documents kept",
        "Filtered out 95000 texts in other languages, 5000 German texts remain",
        "5000 samples after filtering by language, 100000 in total",
        "Removed 12 columns, 8 examples kept for preview",
        "dropped 99 rows in the printed table, 1 row left to show of the examples",
        "rank 3: skipping 87500 samples of other ranks, 12500 samples left",
        "data loading finished in 12 s",
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
        ("torch._dynamo hit config.cache_size_limit (8)", "recompiled-too-often"),
        (
            "Too many dataloader workers: 8 (max is dataset.n_shards=2). Stopping 6 dataloader "
            "workers.",
            "shards-fewer-than-workers",
        ),
        ("UserWarning: Length of IterableDataset <S> was reported to be 9", "samples-come-twice"),
        (
            "Mismatch between tokenized prompt and the start of tokenized prompt+completion.",
            "prompt-tokens-differ",
        ),
        ("Already found a `peft_config` attribute in the model.", "adapter-added-twice"),
        ("`Trainer.fit` stopped: No training batches.", "no-batches-to-train"),
        ("`Trainer.fit` stopped: `max_steps=10` reached.", ""),
        ("torch._dynamo: recompile_limit is 64", ""),
        ("DataLoader: 8 workers, dataset.num_shards=64", ""),
        ("Resuming training from checkpoint-4000, beta: 0.0", ""),
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


def test_an_evaluation_that_prints_its_batches_has_one_loss_for_each_pass() -> None:
    text = "".join(
        f"Epoch: [{epoch}][10/250] Loss {3 - epoch / 9:.3f} (3.2)\n"
        + "".join(
            f"Test: [{at:2}/10] Time 0.1 (0.1) Loss {0.9 + at:.2f} "
            f"({2.0 + at / 10 - epoch / 9:.2f})\n"
            for at in range(0, 10, 2)
        )
        + f" * Acc@1 {31.2 + epoch:.3f} Acc@5 60.1\n"
        for epoch in range(3)
    )
    found = {each.name: each for each in read(log=text).curves}
    assert found["eval_loss"].values == (2.8, 2.69, 2.58)
    assert found["eval_loss"].lines == (6, 13, 20)
    assert found["score:acc@1"].values == (31.2, 32.2, 33.2)
    epochs = "".join(f"Val [{at}/100] loss: {3 - at / 9:.3f}\n" for at in range(1, 6))
    (each,) = (each for each in read(log=epochs).curves if each.name == "eval_loss")
    assert len(each.values) == 5


@pytest.mark.parametrize(
    ("later", "warned"),
    [
        ("Final trainable parameters: 11,796,480\n", False),
        ("trainable params: 3,407,872 || all params: 7,000,000 || trainable%: 48.7\n", False),
        ("Trainable parameters: 0\n", True),
        ("", True),
    ],
)
def test_parameters_that_a_later_line_says_are_trained(later: str, warned: bool) -> None:
    rows = "".join(f"step {at} loss: {3 - at / 9:.3f}\n" for at in range(6))
    log = read(log="Trainable parameters: 0\n" + later + rows)
    assert ("nothing-trainable" in problems(log)) is warned


def test_scores_by_which_checkpoints_are_chosen_are_read_as_long_as_they_are_0() -> None:
    """Above 0 Lightning prints only the best ones, which would improve whatever happens."""
    zero = "'val/f1_score' reached {} (best {}), saving model\n'val/f1_score' was not in top 1\n"
    assert values(zero.format("0.00000", "0.00000"))["score:val/f1_score"] == [0.0, 0.0]
    later = zero.format("0.00000", "0.00000") + zero.format("0.50000", "0.50000")
    assert values(later)["score:val/f1_score"] == [0.0, 0.0, 0.5]
    assert not values(zero.format("0.25000", "0.25000"))
    assert not values(zero.replace("f1_score", "loss").format("0.00000", "0.00000"))


def test_what_coco_has_no_objects_for_and_the_start_of_an_epoch_are_no_values() -> None:
    assert not values(COCO.format("-1.000"))
    assert "data_share" not in values("[20/500] Time 8.5 (4.0) Data 0.001 (3.9)")


def test_a_row_of_digits_takes_no_time_and_no_number_that_is_none() -> None:
    head = DETECTOR.splitlines()[1]
    assert not values(f"{head}\nall 1 1 {'1' * 4000}x")
    assert not values(f"{head}\nall 1 1 1.2.3 1 1 1")

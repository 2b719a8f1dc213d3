"""Which cause the settings of a log decide: every row with settings that hold and others that do
not, and logs with a label."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from logs import curve, findings, problems, read, with_curves
from msgspec import structs
from paths import ROOT, TESTS

from doctor.checks.log.classes import BY_SLUG
from doctor.checks.log.curves import CHECKS
from doctor.checks.log.curves.mild import MILD, still, worse
from doctor.checks.log.differential.decide import ROWS, decided, looked_at
from doctor.checks.log.differential.rates import RULES, Usual, too_high, usual_of
from doctor.checks.log.differential.run import Run
from doctor.cli.explain.name import explain
from doctor.errors.causes import BY_ID, CAUSES
from doctor.errors.match import table_of
from doctor.errors.tables.settings_training import USUAL
from doctor.facts.log import Log, LogFile
from doctor.judge.check import Status
from doctor.judge.sources import SOURCES
from doctor.log.read import FileResult, join
from doctor.report.reason import reason_of

CORPUS = [
    json.loads(line)
    for line in (TESTS / "corpus" / "stated_logs.jsonl").read_text("utf-8").splitlines()
]
"""Logs in own words after public threads: the class, the row, the lines that decide."""
IDS = frozenset(row.id for row in ROWS)
WORD = re.compile(r"\{(\w+):")
REAL = [json.loads(line) for line in (TESTS / "corpus" / "curves.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("label", CORPUS, ids=lambda label: label["name"])
def test_a_labelled_log_is_explained_by_the_lines_that_decide(label: dict[str, Any]) -> None:
    found = findings(read(log=label["log"]))[label["class"]]
    assert found.status in (Status.FAIL, Status.WARN)
    places = [place for place in found.places if place.message in IDS]
    assert {place.message for place in places} == {label["row"]}
    assert sorted({place.line for place in places}) == label["lines"]
    assert found.verdict.sources
    assert found.verdict.causes[0] == label["row"]
    assert reason_of(found) == BY_ID[label["row"]].why
    assert "{" not in found.fix


def test_every_row_is_of_symptoms_and_sources_that_exist() -> None:
    symptoms = {*BY_SLUG, *(check.slug for check in CHECKS)}
    for row in ROWS:
        assert set(row.symptoms) <= symptoms, row.id
        assert set(row.suffices) <= set(row.symptoms) & set(MILD), row.id
    assert len(IDS) == len(ROWS)


@pytest.mark.parametrize("id", sorted(IDS))
def test_every_row_is_a_cause_that_can_be_explained(id: str) -> None:
    cause = BY_ID[id]
    assert cause.role == "setting"
    assert cause.sources
    assert set(cause.sources) <= set(SOURCES)
    assert not set("{}") & set(f"{cause.why}{cause.fix}")
    text = " ".join(explain(id).split())
    for part in (id, cause.why, f"Fix: {cause.fix}", f"errors/{table_of(cause)}.md#{id}"):
        assert " ".join(part.split()) in text
    page = (ROOT / f"docs/errors/{table_of(cause)}.md").read_text("utf-8")
    assert f"\n## {id}\n" in page


def test_every_cause_of_settings_has_a_row() -> None:
    assert {row.id for row in CAUSES if row.role == "setting"} == IDS


def test_the_usual_rates_of_a_fix_are_those_that_decide() -> None:
    rates = {usual.rates for _, usual in RULES if isinstance(usual, Usual)}
    assert set(re.findall(r": (\S+ to [^;)]+)", USUAL)) <= rates


OOM = (
    "Traceback (most recent call last):\n"
    '  File "/w/t.py", line 9, in <module>\n'
    "    loss.backward()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 23.64 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process "
    "has 22.43 GiB memory in use. Of the allocated memory 20.11 GiB is allocated by PyTorch, and "
    "90.00 MiB is reserved by PyTorch but unallocated.\n"
)


COSINE = "lr_scheduler_type: cosine\nmax_steps: 300\n"


def steps(rates: list[float]) -> str:
    """A row of metrics every ten steps."""
    return "".join(f"step {10 * at} loss {3 - at / 20:.3f} lr {rate:.3e}\n"
                   for at, rate in enumerate(rates))  # fmt: skip


CASES = [
        ("rate-above-usual", "loss-divergence", "lora_r: 16\nlr: 2e-3", "lora_r: 16\nlr: 2e-4"),
        ("rate-above-usual", "loss-divergence", "train_type='full'\nlr: 1e-4\nmodel: Qwen-7B",
         "train_type='full'\nlr: 1e-5\nmodel: Qwen-7B"),
        ("rate-below-usual", "loss-plateau", "lora_r: 16\nlr: 1e-6", "lora_r: 16\nlr: 1e-4"),
        ("adapter-scaled", "loss-spike", "lora_r: 8\nlora_alpha: 512", "lora_r: 8\nlora_alpha: 16"),
        ("adapter-scaled", "loss-spike", "lora_r: 64\nlora_alpha: 1024\nlr: 2e-4",
         "lora_r: 64\nlora_alpha: 1024\nuse_rslora: True\nlr: 1e-5"),
        ("ctc-infinite", "loss-nonfinite", "ctc_zero_infinity: false", "ctc_zero_infinity: true"),
        ("vae-in-fp16", "loss-nonfinite", "model: sdxl-base\nfp16: true", "model: sdxl-base"),
        ("bf16-model-in-fp16-without-bf16", "loss-nonfinite",
         "model: t5-base\nfp16: true\nTesla T4",
         "model: t5-base\nbf16: true\nTesla T4"),
        ("bf16-model-in-fp16-without-bf16", "loss-nonfinite",
         "model: gemma-2b\nfp16=True\nTesla T4",
         "model: gemma-2b\nfp16=False\nTesla T4"),
        ("bf16-model-in-fp16", "scaler-collapse", "model: gemma-2b\nfp16=True", "model: gemma-2b"),
        ("gpu-wrong-in-half", "loss-nonfinite", "amp=True\nNVIDIA GeForce GTX 1650",
         "amp=True\nNVIDIA GeForce RTX 3060"),
        ("gpu-wrong-in-half", "evaluation-stands-still", "amp=True\nNVIDIA GeForce GTX 1650",
         "amp=True\nNVIDIA GeForce RTX 3060"),
        ("half-precision-without-bf16", "loss-nonfinite", "fp16: true\nTesla V100", "Tesla V100"),
        ("half-precision-chosen", "loss-nonfinite", "fp16: true", "fp16: false\nbf16: true"),
        ("large-batch-without-warm-up", "loss-spike",
         "batch_size: 512\nworld_size: 64\nlr: 12.8\nwarmup_epochs: 0",
         "batch_size: 512\nworld_size: 64\nlr: 12.8\nwarmup_epochs: 5"),
        ("warm-up-missing", "loss-divergence",
         "warmup_steps: 0", "warmup_steps: 0\nwarmup_ratio: 0.1"),
        ("warm-up-too-long", "loss-plateau", "warmup_steps: 9000\nmax_steps: 800",
         "warmup_steps: 90\nmax_steps: 800"),
        ("gradients-unclipped", "loss-spike", "clip_grad: 0.0", "clip_grad: 1.0"),
        ("resumed-with-another-batch", "loss-spike", "world_size=8" + 30 * "\nx" + "\nworld_size=2",
         "world_size=8" + 30 * "\nx" + "\nworld_size=8"),
        ("resumed-with-another-batch", "loss-spike",
         "world_size=8\ngrad_accum=4" + 30 * "\nx" + "\nworld_size=16\ngrad_accum=4",
         "world_size=8\ngrad_accum=8" + 30 * "\nx" + "\nworld_size=16\ngrad_accum=4"),
        ("resumed-with-another-length", "schedule-begins-anew",
         "max_steps=400" + 30 * "\nx" + "\nmax_steps=800", "max_steps=400"),
        ("second-moment-slow", "loss-spike", "Initializing a new model from scratch\nbeta2: 0.999",
         "Initializing a new model from scratch\nbeta2: 0.95"),
        ("data-in-order", "loss-plateau", "shuffle: False", "shuffle: True"),
        ("preference-factor-zero", "loss-plateau",
         "DPOConfig(\nbeta=0.0,\n)", "DPOConfig(\nbeta=0.1,\n)"),
        ("decay-too-strong", "loss-plateau", "weight_decay: 10.0", "weight_decay: 0.1"),
        ("decay-too-strong", "loss-plateau", "weight_decay: 10.0\nlr: 1e-3",
         "optimizer: lion\nweight_decay: 10.0\nlr: 3e-5"),
        ("dropout-too-strong", "loss-plateau", "dropout: 0.9", "dropout: 0.1"),
        ("classes-unequal", "evaluation-stands-still",
         "foreground pixels 0.2 %", "foreground 40 %"),
        ("updates-rounded-away", "loss-plateau", "dtype: bf16\nlr: 1e-6", "dtype: bf16\nlr: 2e-5"),
        ("updates-rounded-away", "loss-plateau", "dtype: bf16\nlr: 1e-6",
         "dtype: bf16\nfp32 master weights\nlr: 1e-6"),
        ("rate-below-usual", "loss-plateau", "lora_r: 16\nlr: 2e-6", "lora_r: 16\nlr: 5e-6"),
        ("schedule-too-short", "learning-rate-zero", "T_max: 100\nmax_steps: 900",
         "T_max: 900\nmax_steps: 900"),
        ("schedule-counts-epochs", "learning-rate-zero", "T_max: 50\nepochs: 50",
         "T_max: 10\nepochs: 50"),
        ("schedule-stands-still", "learning-rate-zero", f"{COSINE}{steps([3e-4] * 30)}",
         f"{COSINE}{steps([3e-4 - at * 1e-6 for at in range(30)])}"),
        ("schedule-stands-still", "learning-rate-zero", f"{COSINE}{steps([3e-4] * 30)}",
         f"lr: 3e-4\nmin_lr: 3e-4\n{COSINE}{steps([3e-4] * 30)}"),
        ("schedule-stands-still", "learning-rate-zero",
         f"epochs: 3\n{COSINE}{steps([3.1e-4] * 20)}",
         f"epochs: 3\n{COSINE}{steps([3.1e-4] * 11)}"),
        ("schedule-stands-still", "learning-rate-zero",
         f"epochs: 3\n{COSINE}{steps([3e-4] * 20)}",
         f"epochs: 1\n{COSINE}{steps([3e-4] * 30)}"),
        *(("schedule-stands-still", "learning-rate-zero", f"{COSINE}{steps([3e-4] * 30)}",
           f"{COSINE.replace('cosine', name)}{steps([3e-4] * 30)}")
          for name in ("linear_warmup", "exponential", "inverse_sqrt", "LinearLR")),
        ("schedule-stands-still", "learning-rate-zero", f"{COSINE}{steps([3e-4] * 30)}",
         f"noise scheduler: linear\nmax_steps: 300\n{steps([3e-4] * 30)}"),
        ("overfits-without-regularization", "evaluation-rises", "augment: False", "augment: True"),
        ("too-many-epochs", "evaluation-rises", "epochs: 30\ntrain_samples: 500", "epochs: 2"),
        ("few-samples", "evaluation-rises", "train_samples: 300", "train_samples: 300000"),
        ("policy-unbound", "rewards-alike",
         "num_generations: 8\nbeta: 0.0", "num_generations: 8\nbeta: 0.04"),
        ("auxiliary-loss-heavy", "loss-plateau", "router_aux_loss_coef: 0.9",
         "router_aux_loss_coef: 0.01"),
        *(("auxiliary-loss-heavy", "loss-plateau", "moe_aux_loss_coeff: 0.9", other)
          for other in ("aux_loss_weight: 0.4\narch: pspnet", "aux_loss_coef: 1.0\nmodel: detr")),
        ("samples-greedy", "rewards-alike", "temperature: 0.0", "temperature: 0.9"),
        ("one-completion", "rewards-alike", "rollout_n: 1", "rollout_n: 8"),
        ("policy-epochs", "value-function-fails", "n_epochs: 80", "n_epochs: 10"),
        ("exploration-off", "collapsed", "ent_coef: 0.0", "ent_coef: 0.01"),
        ("latents-pressed", "collapsed", "kl_weight: 10", "kl_weight: 0.001"),
        ("discriminator-favoured", "discriminator-won",
         "lr_d: 4e-4\nlr_g: 1e-4", "lr_d: 2e-4\nlr_g: 2e-4"),
        ("positions-exceeded", "device-side-assert", "max_length: 1024\nn_positions: 512",
         "max_length: 512\nn_positions: 512"),
        ("vocabulary-exceeded", "index-out-of-range", "len(tokenizer) = 32004\nvocab_size: 32000",
         "len(tokenizer) = 32000\nvocab_size: 32000"),
        ("labels-exceeded", "device-side-assert", "labels: {0: 5, 3: 9}\nnum_labels: 3",
         "labels: {0: 5, 2: 9}\nnum_labels: 3"),
        ("workers-exceed-host", "killed-sigkill",
         "num_workers: 64\n8 CPU cores", "num_workers: 8\n8 CPU cores"),
        ("offloaded-state-too-large", "killed-sigkill",
         "offload_optimizer: cpu\nmodel: Llama-13b\n64 GB RAM",
         "offload_optimizer: cpu\nmodel: Llama-13b\n900 GB RAM"),
        ("timeout-too-short", "nccl-timeout", "ddp_timeout: 60", "ddp_timeout: 1800"),
        ("one-process-loads", "waits-for-data", "num_workers: 0", "num_workers: 8"),
        ("workers-compete", "waits-for-data", "num_workers: 32\ncpus_per_task: 4",
         "num_workers: 4\ncpus_per_task: 8"),
        ("state-too-large", "cuda-oom", f"trainable params: 7,000,000,000\n{OOM}",
         f"trainable params: 100,000,000\n{OOM}"),
        ("sampler-takes-the-gpu", "cuda-oom", f"gpu_memory_utilization: 0.8\n{OOM}",
         f"gpu_memory_utilization: 0.2\n{OOM}"),
        ("logits-too-large", "cuda-oom",
         f"batch_size: 4\nseq_len: 4096\nvocab_size: 32768\n{OOM}",
         f"batch_size: 1\nseq_len: 4096\nvocab_size: 32768\n{OOM}"),
        ("rows-of-any-length", "cuda-oom", f"truncation: False\n{OOM}", f"truncation: True\n{OOM}"),
        ("activations-kept", "cuda-oom", f"gradient_checkpointing: False\nbatch_size: 8\n{OOM}",
         f"gradient_checkpointing: True\n{OOM}"),
        ("batch-too-large", "cuda-oom", f"batch_size: 8\n{OOM}", f"batch_size: 1\n{OOM}"),
]  # fmt: skip
"""Row, symptom, settings with which it holds, and others."""


@pytest.mark.parametrize(("id", "symptom", "holds", "silent"), CASES)
def test_a_row_holds_where_its_settings_say_so_and_not_else(
    id: str, symptom: str, holds: str, silent: str
) -> None:
    found = decided(read(log=f"{holds}\n"), (symptom,), "log")
    assert found is not None
    assert found.row.id == id
    assert {*WORD.findall(found.cause.template)} <= {*found.evidence.words}
    other = decided(read(log=f"{silent}\n"), (symptom,), "log")
    assert other is None or other.row.id != id


TOLD = {"evaluation-batch-too-large", "schedule-stepped-per-process"}
"""Rows that need a traceback or a curve, which the labelled logs have."""


def test_every_row_is_tried() -> None:
    tried = {case[0] for case in CASES}
    assert IDS - tried <= TOLD
    assert {label["row"] for label in CORPUS} >= TOLD


SETTINGS = (
    "Namespace(lr=1e-5, warmup_steps=0, fp16=True, num_workers=0, clip_grad=0.0, batch_size=4)\n",
    "lora_r: 16\nlora_alpha: 32\nlr: 2e-4\nwarmup_ratio: 0.03\nnum_train_epochs: 3\n",
    "optimizer: sgd\nlr: 0.1\nbatch_size: 256\nworld_size: 1\nweight_decay: 1e-4\nepochs: 90\n",
    "Initializing a new model from scratch\nlearning_rate: 6e-4\nweight_decay: 0.1\nbeta2: 0.99\n",
)
FAR_OFF = "lora_r: 8\nlora_alpha: 1024\nlr: 2e-2\n"


def stated_log(values: list[float], settings: str) -> Log:
    stated = tuple(structs.replace(each, path="train.log") for each in read(log=settings).stated)
    return structs.replace(with_curves(curve("loss", values)), stated=stated)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("points", [40, 400])
def test_a_healthy_curve_with_usual_settings_is_silent(settings: str, points: int) -> None:
    found = {run["name"]: problems(stated_log(run["loss"][:points], settings)) for run in REAL}
    assert {name: each for name, each in found.items() if each} == {}


def test_a_falling_loss_with_a_setting_that_is_far_off_is_silent() -> None:
    falling = [3 - step / 40 for step in range(80)]
    assert problems(stated_log(falling, FAR_OFF)) == {}


def test_a_mild_rise_is_a_warning_only_with_a_setting_that_is_far_off() -> None:
    rises = [1.5 - step / 50 for step in range(10)] + [1.9] * 30
    assert worse(stated_log(rises, "")) is not None
    assert problems(stated_log(rises, SETTINGS[1])) == {}
    assert problems(stated_log(rises, FAR_OFF)) == {"loss-divergence": Status.WARN}
    assert worse(stated_log(rises, f"{FAR_OFF}lr_d: 1e-4\n")) is None
    assert problems(stated_log(rises, "optimizer: Adam\nlr: 1e-2\n")) == {}  # of any kind
    beside = with_curves(
        curve("loss", rises), curve("score:val_acc", [at / 50 for at in range(40)])
    )
    assert worse(beside) is None


def test_a_loss_that_stands_is_still() -> None:
    assert still(stated_log([2.0 + step % 2 / 100 for step in range(40)], "")) is not None
    assert still(stated_log([2.0 - step / 100 for step in range(40)], "")) is None


def test_a_long_warm_up_is_too_long_only_where_the_rate_does_not_reach_its_value() -> None:
    settings = "warmup_steps: 100\nmax_steps: 200\n"
    still_warm = stated_log([2.0 + step % 2 / 100 for step in range(40)], settings)
    for peak, id in ((20, None), (40, "warm-up-too-long")):
        rate = curve("learning_rate", [1e-5 * (min(at, peak) + 1) for at in range(40)])
        log = structs.replace(still_warm, curves=(*still_warm.curves, rate))
        found = decided(log, ("loss-plateau",), "train.log")
        assert (found.row.id if found else None) == id


def test_where_no_setting_decides_the_finding_names_what_it_looked_at() -> None:
    log = stated_log([1.0] * 10 + [math.nan] * 20, "lr: 1e-5\nbatch_size: 8\nclip_grad: 1.0\n")
    found = findings(log)["loss-nonfinite"]
    assert found.status is Status.FAIL
    assert "learning rate 1e-5 (line 1)" in found.fix
    assert "none of them decides" in found.fix
    assert looked_at(log, ("disk-full",), "train.log") == ""


def test_the_usual_rates_are_in_order() -> None:
    for _, usual in RULES:
        if isinstance(usual, Usual):
            assert usual.least < usual.low < usual.high < usual.most, usual.what
    assert usual_of(Run(stated_log([1.0], "lr: 0.1\n"), "train.log")) is None


@pytest.mark.parametrize(
    ("settings", "is_high"),
    [
        ("model=yolov8n\noptimizer: SGD\nbatch=4\nlr0=0.01\n", False),
        ("model: Qwen2-7B\nlr: 2e-4\n", False),  # of an adapter or of all weights
        ("model: Qwen2-7B\nuse_lora=False\nlr: 2e-4\n", True),
        (
            "model: Qwen2-7B\nUnsloth 2024.10 patched 28 layers with 28 QKV layers\nlr: 2e-4\n",
            False,
        ),
        ("optimizer Adam lr 0.1\n", True),
        ("lr: 0.1\n", False),
        ("model: graphite-cnn\nlr: 0.002\n", False),
    ],
)
def test_a_rate_is_high_only_for_a_known_way_of_training(settings: str, is_high: bool) -> None:
    assert (too_high(Run(read(log=settings), "log")) is not None) == is_high


def test_logits_that_are_collected_are_not_blamed_on_the_batch() -> None:
    stated = "per_device_train_batch_size=16 per_device_eval_batch_size=64\n"
    inner = '  File "/w/trainer.py", line 9, in {}\n    x = f(y)\ntorch.'
    for function, row in (("forward", "evaluation-batch-too-large"), ("nested_concat", None)):
        trace = OOM.replace("<module>", "evaluation_loop").replace("torch.", inner.format(function))
        found = decided(read(log=stated + trace), ("cuda-oom",), "log")
        assert (found.row.id if found else None) == row


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("NVIDIA A100 80GB PCIe\ntorch 2.5.1+cpu\n", Status.WARN),
        ("NVIDIA A100 80GB PCIe\ndevice: cpu\n", Status.WARN),
        ("NVIDIA A100 80GB PCIe\ntorch 2.5.1+cu124\ndevice: cuda\n", Status.PASS),
        ("NVIDIA A100 80GB PCIe\n  device: cpu\n", Status.PASS),  # of an offload
        ("torch 2.5.1+cpu\ndevice: cpu\n", Status.PASS),
    ],
)
def test_a_training_on_the_cpu_beside_a_gpu(text: str, status: Status) -> None:
    assert findings(read(log=text))["cuda-unavailable"].status is status


def test_ranks_of_one_run_state_it_once_and_each_is_judged_by_it() -> None:
    stated = read(log="lr: 1e-3\nlora_r: 8\n").stated
    files = [
        FileResult(
            LogFile(path=f"rank_{rank}.log", kind="text"),
            stated=tuple(structs.replace(each, path=f"rank_{rank}.log") for each in stated),
        )
        for rank in range(40)
    ]
    log = join(files)
    assert len(log.stated) == len(stated)
    assert Run(log, "rank_7.log").value("learning_rate") == 1e-3
    assert len(join(files[:3]).stated) == 3 * len(stated)

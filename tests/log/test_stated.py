"""Settings in every form that logs state them in."""

from __future__ import annotations

import pytest
from logs import read

from doctor.log.stated.names import SETTINGS, canonical
from doctor.log.stated.values import number_of

Values = dict[str, str | float]


def stated(text: str) -> Values:
    """The first value of each setting."""
    values: Values = {}
    for each in read(log=text).stated:
        values.setdefault(each.name, each.text if each.number is None else each.number)
    return values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Namespace(lr=2e-05, batch_size=16, warmup_steps=0)",
         {"learning_rate": 2e-5, "batch_size": 16, "warmup_steps": 0}),
        ("{'model': 'xlm-roberta-large', 'lr': 1e-05, 'max_length': None}",
         {"model": "xlm-roberta-large", "learning_rate": 1e-5, "seq_length": 0}),
        ('  "learning_rate": 0.002,\n  "lora_r": 32,\n', {"learning_rate": 0.002, "lora_rank": 32}),
        ("TrainingArguments(\nfp16=True,\nmax_grad_norm=1.0,\n)", {"fp16": 1, "clip": 1}),
        ("lr: 1.0e-06\nweight_decay: 0.05\n", {"learning_rate": 1e-6, "weight_decay": 0.05}),
        ("  clip_grad ....................... 1.0\n  lr ......... 0.0003\n",
         {"clip": 1, "learning_rate": 0.0003}),
        ("train.py --learning_rate 2e-5 --bf16 --num_train_epochs=3",
         {"learning_rate": 2e-5, "bf16": 1, "epochs": 3}),
        ("  Num examples = 48,211\n  Number of trainable parameters = 7,241,732,096\n",
         {"rows": 48_211, "trainable_params": 7_241_732_096}),
        ("Total train batch size (w. parallel, distributed & accumulation) = 128",
         {"global_batch": 128}),
        ("trainable params: 53,248 || all params: 8,114,147,328 || trainable%: 0.1",
         {"trainable_params": 53_248, "all_params": 8_114_147_328}),
        ("OrderedDict([('learning_rate', 0.01), ('n_epochs', 80)])",
         {"learning_rate": 0.01, "policy_epochs": 80}),
        ("optimizer = dict(type='SGD', lr=0.02, momentum=0.9)",
         {"optimizer": "SGD", "learning_rate": 0.02, "momentum": 0.9}),
        ("'optimizer': {'_name': 'adam'}, 'lr': [0.1]",
         {"optimizer": "adam", "learning_rate": 0.1}),
        ("actor_rollout_ref.actor.optim.lr=1e-6 critic.optim.lr=1e-5",
         {"learning_rate": 1e-6, "critic_rate": 1e-5}),
        ("| dropout | 0.9 |\n| lr | 0.001 |", {"dropout": 0.9, "learning_rate": 0.001}),
        ('"fp16": {\n    "enabled": true\n}', {"fp16": 1}),
        ('"bf16": {"enabled": false}', {"bf16": 0}),
        ("optim:\n  name: adamw\n  lr: 2.0", {"optimizer": "adamw", "learning_rate": 2}),
        ("validation_ds:\n  batch_size: 64", {"eval_batch_size": 64}),
        ("***** Running Evaluation *****\n  Batch size = 64", {}),
        ("run 1: world_size=8 global_batch=128", {"world_size": 8, "global_batch": 128}),
        ("LoraConfig(task_type='CAUSAL_LM', r=16, lora_alpha=32)",
         {"method": "lora", "lora_rank": 16, "lora_alpha": 32}),
        ("device: NVIDIA GeForce RTX 4090, 24564 MiB",
         {"gpu": "NVIDIA GeForce RTX 4090", "gpu_memory": 24564 * 2**20}),
        ("Host: 8 CPU cores, 31 GB RAM", {"cores": 8, "host_memory": 31e9}),
        ("label distribution: {0: 4120, 1: 3905, 2: 877}", {"highest_label": 2}),
        ("--model_name_or_path google/mt5-base", {"model": "google/mt5-base", "family": "mt5"}),
    ],
)  # fmt: skip
def test_a_setting_is_read_in_its_form(text: str, expected: Values) -> None:
    found = stated(text)
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"step {step} loss {3 - step / 50:.3f} lr 1.0e-04 bs 8\n" for step in range(9)),
        "{'loss': 1.2345, 'grad_norm': 0.7, 'learning_rate': 1e-05, 'epoch': 0.1}",
        " iteration 10/ 100 | learning rate: 3.0E-04 | lm loss: 6.1 | grad norm: 1.2 |",
        "sample: the learning rate of students: high, their batch: none of it",
        "see https://host:8080/lr/x",
    ],
)
def test_rows_of_metrics_and_sentences_state_nothing(text: str) -> None:
    assert not {"learning_rate", "batch_size", "epochs"} & {*stated(text)} or "sample" in text


def test_rows_alike_are_a_table_of_metrics() -> None:
    text = "".join(f"gpu {number} workers: {number}\n" for number in range(1, 40))
    assert len([each for each in read(log=text).stated if each.name == "workers"]) <= 3


def test_each_value_stands_with_its_line_and_a_later_run_with_its_own() -> None:
    text = "world_size=8\n" + 30 * "step\n" + "world_size=2\nworld_size=8\n"
    found = [each for each in read(log=text).stated if each.name == "world_size"]
    assert [(each.number, each.line) for each in found] == [(8, 1), (2, 32)]


def test_the_opening_of_a_long_log_is_read() -> None:
    row = "node-{0} worker {0} message {0} of the loop, nothing to see in it at all {1}\n"
    text = "learning_rate=0.001\n" + "".join(row.format(n, "x" * (n % 50)) for n in range(9000))
    assert len(text) > 1 << 19
    assert stated(text)["learning_rate"] == 0.001


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001), ("7,241", 7241), ("1_000", 1000), ("21.7M", 21.7e6),
        ("24 GiB", 24 * 2**30),
        ("50%", 0.5), ("True", 1), ("None", 0), ("'8'", 8), ("auto", None), ("1e999", None),
    ],
)  # fmt: skip
def test_a_value_is_a_number_in_the_unit_of_its_name(text: str, value: float | None) -> None:
    assert number_of(text) == pytest.approx(value)


def test_no_name_is_of_two_settings() -> None:
    names = [alias for aliases in SETTINGS.values() for alias in aliases.split()]
    assert len(names) == len(set(names))
    assert all(canonical(name) for name in names)

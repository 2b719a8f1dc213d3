"""Metrics of every source become the same curves."""

from __future__ import annotations

import io
import json
import math
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.checks.log.patterns import line_patterns
from doctor.facts.log import Curve, Log
from doctor.log.metrics.curves import MOST, Curves
from doctor.log.metrics.tensorboard import read_events
from doctor.log.patterns import Gate
from doctor.log.read import read_logs, read_stream

GATE = Gate(line_patterns())


def read_text(text: str) -> Log:
    return read_stream("train.log", io.BytesIO(text.encode()), GATE)


def read_file(path: Path, data: bytes) -> Log:
    path.write_bytes(data)
    return read_logs([str(path)], line_patterns())


def curve(log: Log, name: str) -> Curve:
    (found,) = (each for each in log.curves if each.name == name)
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "{'loss': 2.5, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.1}",
            {"loss": 2.5, "grad_norm": "nan", "learning_rate": 1e-5},
        ),
        ("{'loss': '0.0', 'grad_norm': 'nan'}", {"loss": 0.0, "grad_norm": "nan"}),
        (
            " iteration 200/ 5000 | learning rate: 1.5E-04 | lm loss: 2.3E+00 | loss scale: 1.0 | "
            "grad norm: 1.25 |",
            {"loss": 2.3, "loss_scale": 1.0, "learning_rate": 1.5e-4, "grad_norm": 1.25},
        ),
        ("step=7 train/loss=0.5 lr=3e-4", {"loss": 0.5, "learning_rate": 3e-4}),
        ("Epoch 1: 10%|#| 3/30 [00:01<00:09, loss=0.31, v_num=0]", {"loss": 0.31}),
        ("INFO loss: -inf", {"loss": "-inf"}),
        ("loss: tensor(0.25, device='cuda:0')", {"loss": 0.25}),
        ("{'eval_loss': 2.5, 'eval_runtime': 1.0}", {"eval_loss": 2.5}),
        ("{'train_runtime': 5.0, 'train_loss': 0.5}", {"loss": 0.5}),
        ("Loss is: 0.5.", {"loss": 0.5}),
        (
            "Iter 1: Train loss 0.5, Learning Rate 1.0e-05, It/sec 0.25, Tokens/sec 95.5",
            {"loss": 0.5, "learning_rate": 1e-5, "speed": 0.25, "throughput": 95.5},
        ),
        ("weight loss: about 3 kg", {}),
        (
            "Epoch 3 test | loss 2.3 acc 10.5% lr 1.0e-4",
            {"eval_loss": 2.3, "learning_rate": 1e-4, "score:test acc": 0.105},
        ),
        ("train loss 5.72 top1 3.25 | val loss 5.4", {"loss": 5.72, "eval_loss": 5.4}),
        ("Params: local_loss: True lr: 0.0005", {}),  # settings
        (
            "Train: 0 Loss: 6.9 (6.8) Time: 3.1s, 330/s LR: 1e-4 Data: 2.6 (2.5)",
            {"loss": 6.9, "learning_rate": 1e-4, "iteration_time": 3.1, "data_time": 2.6},
        ),
        ("iter 3 loss 2.5, time 0.31", {"loss": 2.5}),  # a time alone may be anything
        ("[3/25] Loss_D: 0.7 Loss_G: 1.9", {"discriminator_loss": 0.7, "generator_loss": 1.9}),
        ("Epoch [1]--->Tloss: 12.8", {"loss": 12.8}),
        ("Epoch: 3 avg_loss_tgt: 299.8 time: 42.3s", {"loss": 299.8}),
        ("step 3 kl_loss: 0.2 val/loss_ce: 0.5", {}),  # may rise, or are of an evaluation
        (
            "{\u2018loss\u2019: 1.4, \u2018learning_rate\u2019: 1e-05}",
            {"loss": 1.4, "learning_rate": 1e-5},
        ),
        ("Epoch [1/300] - Train-Loss: 145.1, LR: [0.001]", {"loss": 145.1, "learning_rate": 1e-3}),
        ("validation loss is: 0.25", {"eval_loss": 0.25}),
        ("9/9 [==] - 13s 500ms/step - loss: 0.5", {"loss": 0.5, "speed": 2.0}),
        ("| 3/30 [00:01<00:09, 3.5it/s, loss=0.3]", {"loss": 0.3, "speed": 3.5}),
        ("Filter: 3/30 [00:01<00:09, 181.9it/s]", {}),  # a bar of anything
        ("step:9/30 train_time:2166ms step_avg:240.5ms", {"step_time": 0.2405}),
        (
            "(epoch: 1, iters: 9, time: 1.5, data: 0.5) D_A: 0.9 G_A: 1.6",
            {
                "discriminator_loss": 0.9,
                "generator_loss": 1.6,
                "iteration_time": 1.5,
                "data_time": 0.5,
            },
        ),
        (
            "| Epoch | Train Loss | Val Loss | Val Acc (%) |\n|---|---|---|---|\n"
            "| 1 | 2.5 | 2.25 | 12.5 |",
            {"loss": 2.5, "eval_loss": 2.25, "score:val acc (%)": 12.5},
        ),
        ("total loss\tctc loss\n46.5\t9.25", {"loss": 46.5}),
        ("| model | loss | params |\n| a | 0.5 | 3 |", {}),  # a table of models
        (
            "INFO] Step 50/90; acc: 12.0; ppl: 26.8; xent: 3.29; lr: 1.0; 4 sec",
            {"loss": 3.29, "learning_rate": 1.0},
        ),
        ("Epoch: 1, TrainLoss: 67.5, ValLoss: 18.4", {"loss": 67.5, "eval_loss": 18.4}),
        ("2025-10-20 - src.train - INFO - Validation - Loss: 0.2", {"eval_loss": 0.2}),
        ("2025-10-20 - src.validation - INFO - Train - Loss: 0.2", {"loss": 0.2}),
    ],
)
def test_metrics_of_a_line(line: str, expected: dict[str, object]) -> None:
    assert {each.name: each.values[0] for each in read_text(f"{line}\n").curves} == expected


def test_a_steps_number_is_taken_from_the_line() -> None:
    log = read_text("step 10 loss: 1.0\nstep 20 loss: 0.5\n")
    assert curve(log, "loss").steps == (10, 20)
    assert curve(log, "loss").lines == (1, 2)
    assert log.last_step == 20


def test_rows_that_name_no_step_are_called_rows() -> None:
    assert curve(read_text("epoch 7 loss: 1.0\nepoch 8 loss: 0.5\n"), "loss").counts == "row"
    assert curve(read_text("step 0 loss: 1.0\nstep 5 loss: 0.5\n"), "loss").counts == "step"


def test_a_summary_is_read_once_and_only_where_no_row_has_a_loss() -> None:
    summary = "{'train_runtime': 5.0, 'train_loss': 0.5}\n"  # each rank prints it
    assert curve(read_text(8 * summary), "loss").values == (0.5,)
    assert curve(read_text(f"{{'loss': 2.0}}\n{summary}"), "loss").values == (2.0,)


def test_rates_on_rows_of_their_own_count_between_losses() -> None:
    row = "loss: {0}.5\n->>lr:0.000{0}\n"
    assert len(curve(read_text("".join(map(row.format, range(1, 6)))), "learning_rate").values) == 5
    groups = "Parameter Group\n    lr: 0.0\n" * 9  # the repr of an optimizer
    assert not any(c.name == "learning_rate" for c in read_text(f"{groups}loss: 1.0\n").curves)


def test_a_column_says_which_rows_are_of_an_evaluation(tmp_path: Path) -> None:
    data = b"step,type,loss\n0,val,10.5\n1,train,9.5\n2,train,\n"
    log = read_file(tmp_path / "metrics.csv", data)
    assert [(c.name, c.values) for c in log.curves] == [("eval_loss", (10.5,)), ("loss", (9.5,))]


def test_epochs_that_begin_anew_in_a_table_are_of_another_training(tmp_path: Path) -> None:
    runs = b"".join(b"%d,%d.5\n" % (epoch, 9 - epoch) for epoch in (*range(5), *range(3)))
    assert read_file(tmp_path / "log.csv", b"epoch,loss\n" + runs).files[0].starts == (7,)
    again = b"0,9.5\n0,8.5\n1,8.0\n0,7.5\n"  # several rows of an epoch
    assert read_file(tmp_path / "log.csv", b"epoch,loss\n" + again).files[0].starts == ()


HISTORY = [
    {"loss": 2.0, "grad_norm": 1.0, "learning_rate": 1e-5, "step": 1},
    {"eval_loss": 1.9, "step": 1},
    {"loss": math.nan, "grad_norm": "nan", "learning_rate": 1e-5, "step": 2},
    {"train_runtime": 9.0, "train_loss": 1.0, "step": 2},
]


def test_the_same_rows_in_every_kind_of_file(tmp_path: Path) -> None:
    state = json.dumps({"log_history": HISTORY}).encode()
    lines = "".join(json.dumps(row) + "\n" for row in HISTORY).encode()
    table = b"step,loss,grad_norm,learning_rate\n1,2.0,1.0,1e-5\n2,nan,nan,1e-5\n"
    logs = {
        "trainer-state": read_file(tmp_path / "trainer_state.json", state),
        "json-lines": read_file(tmp_path / "metrics.jsonl", lines),
        "csv": read_file(tmp_path / "metrics.csv", table),
        "tensorboard": read_file(tmp_path / "events.out.tfevents.1", tensorboard()),
    }
    for kind, log in logs.items():
        assert log.files[0].kind == kind
        assert not log.files[0].problem
        assert curve(log, "loss").values == (2.0, "nan")
        assert curve(log, "loss").steps == (1, 2)
        assert curve(log, "grad_norm").values == (1.0, "nan")


def tensorboard() -> bytes:
    """Three records as torch.utils.tensorboard writes them."""
    first = bytes_field(3, b"brain.Event:2")
    return b"".join(
        record(event)
        for event in (
            first,
            event_of(1, {"train/loss": 2.0, "train/grad_norm": 1.0}),
            event_of(2, {"train/loss": math.nan, "train/grad_norm": math.nan}),
        )
    )


def event_of(step: int, scalars: dict[str, float]) -> bytes:
    values = b"".join(
        bytes_field(1, bytes_field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
        for tag, value in scalars.items()
    )
    return b"\x10" + bytes([step]) + bytes_field(5, values)


def bytes_field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def record(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + b"\0" * 4 + data + b"\0" * 4


def test_a_tensorboard_file_that_is_cut_off_keeps_what_came_before(tmp_path: Path) -> None:
    log = read_file(tmp_path / "events.out.tfevents.1", tensorboard()[:-6])
    assert curve(log, "loss").values == (2.0,)
    assert "ends within a record" in log.files[0].problem


@given(st.binary(max_size=300))
def test_no_bytes_make_the_event_reader_fail(data: bytes) -> None:
    for raw in (data, record(data)):
        try:
            read_events(io.BytesIO(raw), Curves("x"))
        except ValueError as error:
            assert "record" in str(error)


@pytest.mark.parametrize(
    "data",
    [b'{"log_history": {}}', b'{"log_history": ' + b"[" * 9000, b'{"log_history": [1, "x"]}'],
)
def test_a_strange_trainer_state_is_no_error(tmp_path: Path, data: bytes) -> None:
    log = read_file(tmp_path / "trainer_state.json", data)
    assert not log.curves


def test_the_last_step_of_a_thinned_log_is_read(tmp_path: Path) -> None:
    rows = "".join(f"step {step} | loss 1.0\n" for step in range(150_001))
    log = read_file(tmp_path / "train.log", rows.encode())
    assert log.curves[0].thinned > 1
    assert log.last_step == 150_000


def test_a_long_curve_is_thinned_and_keeps_what_is_not_finite() -> None:
    curves = Curves("x")
    for step in range(20 * MOST):
        value = math.nan if step == 17 * MOST + 3 else 1.0
        if curves.wants(nonfinite=value != value):
            curves.add(step, {"loss": value})
    (loss,) = curves.curves()
    assert len(loss.values) <= MOST
    assert loss.values.count("nan") == 1
    assert loss.thinned > 1
    assert loss.steps[-1] > 19 * MOST


@pytest.mark.parametrize(("beside", "is_policy"), [("AUC: 50.5", False), ("reward: 0.5", True)])
def test_the_kl_of_an_autoencoder_is_no_policys(beside: str, is_policy: bool) -> None:
    log = read_text("".join(f"loss: 1.{n}, kl: 0.{n}, {beside}\n" for n in range(1, 9)))
    assert ("policy_kl" in {each.name for each in log.curves}) == is_policy


@pytest.mark.parametrize(("epochs", "line"), [("0", 0), ("10", 1)])
def test_a_trainer_without_epochs_trained_nothing(epochs: str, line: int) -> None:
    log = read_text(f"`Trainer.fit` stopped: `max_epochs={epochs}` reached.\n")
    assert log.files[0].finished == line


def test_lines_of_a_file_of_metrics_are_counted(tmp_path: Path) -> None:
    rows = b"".join(b'{"step": %d, "loss": 0.5}\n' % n for n in range(7))
    assert read_file(tmp_path / "log.jsonl", rows).files[0].lines == 7

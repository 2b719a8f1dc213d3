"""LoRA and gradient checkpointing with real transformers and peft, the installed and older ones."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import preloaded
import pytest
from shims import clock_stopped_until

from doctor._util.records import Ended
from doctor.checks.numerics import grad_scaler
from doctor.checks.training import lora, own_gradients, own_model, own_weights
from doctor.collect import own_variants
from doctor.collect.child import PROBES
from doctor.collect.children import Children
from doctor.collect.own_training import collect_in, collect_own
from doctor.collect.torch_child import TorchChild
from doctor.facts.facts import Facts, decode
from doctor.facts.own_model import LoraOrder, OwnModel
from doctor.job.job import Chosen, Job, Target
from doctor.judge.check import Owner, Status, Verdict

PRELOADED = functools.partial(preloaded.python, preloaded.TRAINER)
"""An interpreter that has imported transformers and peft."""
OK = Ended(how="ok", seconds=0.1)
FIELDS = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama's directory without weights."""
    from transformers import LlamaConfig

    path = tmp_path_factory.mktemp("models") / "llama"
    LlamaConfig(**FIELDS, architectures=["LlamaForCausalLM"], dtype="bfloat16").save_pretrained(
        path
    )
    return path


Report = Callable[[str], None]


def ignore(progress: str) -> None:
    """A progress report that nobody reads."""


def train(
    children: Children, python: str = "", report_progress: Report = ignore, **fields: Any
) -> OwnModel:
    """Train in a process of its own."""
    job = Job(device="cpu", **fields)
    chosen = Chosen("bf16", "here")
    record = collect_own(children, python or PRELOADED(), job, "cpu", chosen, report_progress)
    assert isinstance(record, OwnModel), record
    return record


Warm = Callable[..., OwnModel]


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    """Trains in one process for all, which has imported transformers and peft."""
    child = TorchChild(Children(), PRELOADED())

    def train(precision: str = "bf16", **fields: Any) -> OwnModel:
        job = Job(device="cpu", **fields)
        chosen = Chosen(precision, "here")  # type: ignore[arg-type]
        record = collect_in(child, job, "cpu", chosen, ignore)
        assert isinstance(record, OwnModel), record
        return record

    yield train
    child.end()


def judge(own: OwnModel, job: Job | None = None) -> Verdict:
    return lora.lora_and_checkpointing(own, job or Job(lora=4))


# The directory


@pytest.mark.slow
def test_a_directory_without_weights_is_cut_and_trained(directory: Path, warm: Warm) -> None:
    own = warm(hf=str(directory), seq_len=32)
    assert own.built.ok, own.built
    assert own.description == f"{directory} (2 of 4 layers, random weights, random tokens)"
    assert own.whole is False
    assert own.settings
    assert own.settings.attention == "sdpa"
    assert [(each.name, each.shape) for each in own.batch] == [
        ("input_ids", (2, 32)), ("labels", (2, 32)),
    ]  # fmt: skip
    assert own.smoke
    assert {each.dtype for each in own.smoke.parameters} == {"float32"}
    for judge_steps in (own_model.loss_finite, own_model.completes):
        assert judge_steps(own, None).status is Status.PASS
    assert own_gradients.gradients_reach_all(own, None, Job()).status is Status.PASS
    assert own_weights.weights_move(own, Job()).status is Status.PASS


@pytest.mark.slow
def test_all_layers_and_the_weights_of_the_directory(tmp_path: Path, warm: Warm) -> None:
    from runs import llama

    llama(num_hidden_layers=3).save_pretrained(tmp_path)
    own = warm(hf=str(tmp_path), layers=9, weights=True)
    assert own.built.ok, own.built
    assert "3 of 3 layers, its weights" in own.description
    assert own.whole
    assert own.saved_weights
    assert own.parameters
    assert 4 * own.parameters < own.saved_weights < 4.4 * own.parameters


@pytest.mark.slow
def test_the_dtype_of_the_directory_is_tried_with_a_scaler(directory: Path, warm: Warm) -> None:
    own = warm("fp16", hf=str(directory))
    assert [(tried.of, tried.dtype) for tried in own.scalers] == [
        ("the model", "float32"), ("from_pretrained", "bfloat16"),
    ]  # fmt: skip
    target = Target("cpu", "--device cpu")
    verdict = grad_scaler.scaler_fits_weights(own, Chosen("fp16", ""), target)
    assert verdict.status is Status.WARN
    assert "from_pretrained returns by default bfloat16" in verdict.summary


@pytest.mark.slow
def test_the_tokenizer_of_the_directory_makes_the_batch(tmp_path: Path, warm: Warm) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, PreTrainedTokenizerFast

    words = {"<unk>": 0, "<pad>": 1, "it": 2, "tells": 3, "nothing": 4, "one": 5}
    plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    made = PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="<unk>", pad_token="<pad>")
    made.save_pretrained(tmp_path)
    LlamaConfig(**FIELDS).save_pretrained(tmp_path)
    own = warm(hf=str(tmp_path))
    assert own.built.ok, own.built
    assert "its tokenizer" in own.description
    assert own.pad_id == 1
    assert own.batch[0].high == 5.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "job", "text", "status"),
    [
        ("{", {}, "not valid JSON", Status.FAIL),
        ('{"model_type": "llama"', {}, "not valid JSON", Status.FAIL),
        ('{"model_type": "no-such-model"}', {}, "no-such-model", Status.FAIL),
        ('{"model_type": "x", "auto_map": {"AutoConfig": "c.C"}}', {}, "code from its directory",
         Status.UNKNOWN),
        ('{"model_type": "vit", "hidden_size": 32, "num_attention_heads": 2, '
         '"intermediate_size": 64, "architectures": ["ViTForImageClassification"]}', {},
         "", Status.PASS),
        ('{"model_type": "segformer", "architectures": ["SegformerForSemanticSegmentation"]}', {},
         "makes no labels", Status.UNKNOWN),
        (json.dumps(FIELDS | {"model_type": "llama"}), {"weights": True}, "no .safetensors",
         Status.UNKNOWN),
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_built(
    config: str, job: dict[str, Any], text: str, status: Status, tmp_path: Path, warm: Warm
) -> None:
    (tmp_path / "config.json").write_text(config, "utf-8")
    (tmp_path / "c.py").write_text("raise SystemExit('run')", "utf-8")
    verdict = own_model.completes(warm(hf=str(tmp_path), **job), None)
    assert (verdict.status, text in verdict.summary) == (status, True), verdict.summary


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["transformers", "peft"])
def test_a_library_that_is_missing_is_the_environments_fault(
    missing: str,
    directory: Path,
    tmp_path: Path,
    children: Children,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = f"raise ModuleNotFoundError('none', name={missing!r})"
    (tmp_path / f"{missing}.py").write_text(source, "utf-8")
    (tmp_path / "sitecustomize.py").write_text(FORGET.format(package=missing), "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    own = train(children, hf=str(directory), lora=4)
    verdict = own_model.completes(own, None)
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.ENVIRONMENT)
    assert f"{missing} is not installed in this interpreter" in verdict.summary
    assert judge(own).status is Status.UNKNOWN


FORGET = """
import sys
for name in [*sys.modules]:
    if name.partition(".")[0] == {package!r}:
        del sys.modules[name]
"""
"""For an interpreter that has imported the package already."""
HANG_SECONDS = 0.5
"""From when an order hangs."""


@pytest.mark.slow
def test_an_order_that_hangs_or_dies_does_not_end_the_others(
    directory: Path, tmp_path: Path, children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head that does not fit in fp32 is left out: it is the doctor's choice, not the user's."""
    (tmp_path / "sitecustomize.py").write_text(DYING, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    first, hanging, _, dying, with_head = own_variants.ORDERS
    monkeypatch.setattr(own_variants, "ORDERS", (first, hanging, with_head, dying))

    hangs = tmp_path / "sitecustomize.py.hangs"
    with contextlib.ExitStack() as clock:

        def set_deadline(progress: str) -> None:
            to_hang = progress.endswith("LoRA first")
            monkeypatch.setattr(own_variants, "LORA_SECONDS", HANG_SECONDS if to_hang else 240.0)
            if to_hang:
                clock.enter_context(clock_stopped_until(hangs.exists))

        own = train(children, report_progress=set_deadline, hf=str(directory), lora=4)
    assert own.smoke, own
    assert [order.ended.how for order in own.lora] == ["ok", "timeout", "signal"]
    assert "inside forward" in own.lora[1].ended.detail
    assert "SIGKILL" in own.lora[2].ended.detail
    assert judge(own).status is Status.WARN


DYING = """
import builtins, os, sys, time
plain = builtins.__import__
asked = {}
def hooked(name, *rest, **named):
    module = plain(name, *rest, **named)
    wire = sys.modules.get("_doctor_probes.wire")
    if hasattr(wire, "received") and not hasattr(wire, "hooked"):  # its last function
        wire.hooked, send, requests = True, wire.send, wire.requests
        def sending(**message):
            send(**message)
            if asked.get("order") == "LoRA first" and message.get("enter") == "forward":
                if asked["save_head"]:
                    raise RuntimeError("CUDA out of memory")
                if asked["reentrant"]:
                    os.kill(os.getpid(), 9)
                open(__file__ + ".hangs", "w").close()
                time.sleep(600)
        def next_request():
            for request in requests():
                asked.clear()
                asked.update(request)
                yield request
        wire.send, wire.requests = sending, next_request
    return module
builtins.__import__ = hooked
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "bert", "gemma3_text"])
def test_other_architectures_are_cut_and_trained_with_lora(
    kind: str, tmp_path: Path, warm: Warm
) -> None:
    from transformers import AutoConfig

    small = {
        "gpt2": {"n_embd": 32, "n_head": 2, "n_layer": 4, "vocab_size": 99, "bos_token_id": 0,
                 "eos_token_id": 0, "architectures": ["GPT2LMHeadModel"]},
        "bert": {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2,
                 "intermediate_size": 64, "vocab_size": 99,
                 "architectures": ["BertForSequenceClassification"]},
        "gemma3_text": {**FIELDS, "num_hidden_layers": 8, "head_dim": 16},
    }  # fmt: skip
    AutoConfig.for_model(kind, **small[kind]).save_pretrained(tmp_path)
    own = warm(hf=str(tmp_path), lora=2)
    assert own.built.ok, own.built
    assert " (2 of " in own.description
    assert judge(own).status is Status.PASS, judge(own).summary


# What the doctor feeds a model


SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 2, "vocab_size": 99, "max_position_embeddings": 64}  # fmt: skip
FED = {
    "WhisperForConditionalGeneration": (
        "whisper",
        {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
         "vocab_size": 99, "max_source_positions": 20, "max_target_positions": 30,
         "num_mel_bins": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
         "decoder_start_token_id": 1},
        "random audio",
    ),
    "LlavaForConditionalGeneration": (
        "llava",
        {"vision_config": {"model_type": "clip_vision_model", **SMALL, "image_size": 28,
                           "patch_size": 14},
         "text_config": {"model_type": "llama", **SMALL}, "image_token_index": 98},
        "random images, random tokens",
    ),
    "RobertaForMultipleChoice": ("roberta", {**SMALL, "pad_token_id": 1}, "random tokens"),
    "BertForSequenceClassification": (
        "bert",
        {**SMALL, "problem_type": "multi_label_classification", "num_labels": 4},
        "random tokens",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FED)
def test_a_model_gets_the_inputs_of_its_class(name: str, tmp_path: Path, warm: Warm) -> None:
    from transformers import AutoConfig

    kind, fields, inputs = FED[name]
    AutoConfig.for_model(kind, **fields, architectures=[name]).save_pretrained(tmp_path)
    own = warm(hf=str(tmp_path), seq_len=16)
    assert f"random weights, {inputs})" in own.description
    job = Job(hf=str(tmp_path))
    verdicts = [own_model.completes(own, None), own_model.loss_finite(own, None),
                own_gradients.gradients_reach_all(own, None, job)]  # fmt: skip
    assert [v.summary for v in verdicts if v.status is not Status.PASS] == []


@pytest.mark.slow
def test_more_tokens_than_positions_are_the_flags_fault(tmp_path: Path, warm: Warm) -> None:
    from transformers import GPT2Config

    config = GPT2Config(n_embd=32, n_head=2, n_layer=2, vocab_size=99, n_positions=64)
    config.architectures = ["GPT2LMHeadModel"]
    config.save_pretrained(tmp_path)
    verdict = own_model.completes(warm(hf=str(tmp_path), seq_len=128), None)
    assert (verdict.status, verdict.owner) == (Status.FAIL, Owner.JOB)
    assert "--seq-len 128 is more than the 64 positions" in verdict.summary


TRAINER = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

def make():
    fields = {fields}
    model = LlamaForCausalLM(LlamaConfig(**fields))
    data = [{{"input_ids": torch.arange(16), "labels": torch.arange(16)}} for _ in range(4)]
    arguments = TrainingArguments({output!r}, use_cpu=True, report_to=[], warmup_steps=10,
                                  max_steps=100, learning_rate=1e-3)
    return Trainer(model=model, args=arguments, train_dataset=data)
"""


@pytest.mark.slow
def test_a_trainer_is_trained_as_it_is(tmp_path: Path, warm: Warm) -> None:
    pytest.importorskip("accelerate")
    fields = {**FIELDS, "num_hidden_layers": 1}
    source = TRAINER.format(fields=fields, output=str(tmp_path / "out"))
    (tmp_path / "trainer_file.py").write_text(source, "utf-8")
    own = warm(model=f"{tmp_path / 'trainer_file.py'}:make")
    assert own.smoke, own.built
    assert own.smoke.optimizer
    assert (own.smoke.optimizer.schedule, own.smoke.optimizer.max_norm) == ("LambdaLR", 1.0)
    assert [step.lr for step in own.smoke.steps] == pytest.approx([0.0, 1e-4, 2e-4])
    assert own_weights.weights_move(own, Job()).status is Status.PASS


# The installed versions


@pytest.mark.slow
def test_every_order_trains_with_the_installed_versions(directory: Path, warm: Warm) -> None:
    own = warm(hf=str(directory), lora=4)
    assert [(o.order, o.reentrant, o.modules_to_save) for o in own.lora] == [
        ("checkpointing first", False, ()),
        ("LoRA first", False, ()),
        ("checkpointing first", True, ()),
        ("LoRA first", True, ()),
        ("LoRA first", True, ("lm_head",)),
    ]
    assert all(order.ended.ok and order.recomputed for order in own.lora)
    assert all(order.without_gradient == () for order in own.lora)
    assert [order.trainable for order in own.lora] == [8, 8, 8, 8, 9]
    assert {order.adapter_dtypes for order in own.lora} == {("float32",)}
    assert set(own.versions) >= {"transformers", "peft"}
    assert own.trainable == 8 * 4 * 32
    assert own.saved_weights is not None
    assert own.parameters is not None
    assert own.saved_weights < 4 * own.parameters
    assert judge(own).status is Status.PASS


@pytest.mark.slow
def test_the_command_judges_lora(directory: Path, tmp_path: Path) -> None:
    options = ("--quick", "--hf", str(directory), "--lora", "4", "--python", PRELOADED())
    report, facts = command(tmp_path, *options)
    statuses = {finding["code"]: finding["status"] for finding in report["findings"]}
    codes = ("SMK001", "SMK005", "SMK006", "SMK007", "SMK008", "SMK009")
    assert {statuses[code] for code in codes} == {"pass"}
    assert statuses["SMK010"] == "skip"
    assert report["verdict"] == "ready"
    assert isinstance(facts.own, OwnModel)


def command(directory: Path, *arguments: str) -> tuple[dict[str, Any], Facts]:
    line = [sys.executable, "-m", "doctor", "run", "--device", "cpu", "--format", "json"]
    done = subprocess.run(
        [*line, "--save-facts", "facts.json", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(PROBES.parent.parent)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout), decode((directory / "facts.json").read_bytes())


# transformers 4.57: the reentrant order that raises, and the one that is silent


@pytest.mark.slow
def test_the_order_that_raises_and_the_silent_one(
    transformers_4: str, directory: Path, children: Children
) -> None:
    own = train(children, python=transformers_4, hf=str(directory), lora=4)
    assert own.versions["transformers"] == "4.57.6"
    fine, raising, silent = own.lora[:3], own.lora[3], own.lora[4]
    assert all(order.ended.ok and not order.without_gradient for order in fine)
    assert "does not require grad" in raising.ended.detail
    assert silent.ended.ok
    assert len(silent.without_gradient) == 8
    assert all("lora_" in name for name in silent.without_gradient)
    assert silent.recomputed is False
    verdict = judge(own)
    assert verdict.status is Status.WARN
    assert "2 of 5 combinations fail with transformers 4.57.6 and peft 0.17.1" in verdict.summary
    assert "8 of 9 parameters silently get no gradient" in verdict.summary
    assert "use_reentrant" in (verdict.fix or "")
    assert own_gradients.gradients_reach_all(own, None, Job()).status is Status.PASS
    assert own_weights.weights_move(own, Job()).status is Status.PASS


# The verdicts


def order(place: str = "LoRA first", reentrant: bool = False, **fields: Any) -> LoraOrder:
    known: dict[str, Any] = {
        "order": place,
        "reentrant": reentrant,
        "ended": OK,
        "trainable": 8,
        "adapter_dtypes": ("float32",),
        "recomputed": True,
    }
    return LoraOrder(**known | fields)


def tried(*orders: LoraOrder, **versions: str) -> OwnModel:
    installed = {"transformers": "5.23.0", "peft": "0.21.2"} | versions
    return OwnModel(description="llama", built=OK, lora=orders, versions=installed)


RAISED = Ended(how="error", detail="RuntimeError: element 0 of tensors does not require grad")
CANNOT = Ended(how="error", detail="ValueError: X does not support gradient checkpointing.")


@pytest.mark.parametrize(
    ("orders", "status", "text"),
    [
        ((order(), order(reentrant=True)), Status.PASS, "all 2 combinations train"),
        ((order(), order(reentrant=True, ended=RAISED)), Status.WARN, "element 0 of tensors"),
        ((order(), order(reentrant=True, without_gradient=("a", "b"))), Status.WARN,
         "2 of 8 parameters silently"),
        ((order(), order(reentrant=True, non_finite=("a",))), Status.WARN, "not finite"),
        ((order(), order(reentrant=True, ended=Ended(how="timeout", detail="no answer"))),
         Status.WARN, "hangs no answer"),
        ((order(ended=RAISED), order(reentrant=True, ended=RAISED)), Status.FAIL, "2 of 2"),
        ((order(adapter_dtypes=("bfloat16",)),), Status.WARN, "float32 required"),
        ((order(recomputed=False),), Status.WARN, "no block was recomputed"),
        ((order(recomputed=None),), Status.PASS, "0 of 1"),
        ((order(ended=CANNOT), order(ended=CANNOT)), Status.SKIP, "no gradient checkpointing"),
        ((), Status.UNKNOWN, "no order"),
    ],
)  # fmt: skip
def test_the_orders_are_judged(orders: tuple[LoraOrder, ...], status: Status, text: str) -> None:
    verdict = judge(tried(*orders))
    assert (verdict.status, text in verdict.summary) == (status, True), verdict.summary
    assert lora.lora_and_checkpointing(tried(*orders), Job()).status is Status.SKIP


@pytest.mark.parametrize(
    ("version", "text"),
    [("4.57.6", "reentrant by default"), ("5.0.0", "Leave use_reentrant at its default"),
     ("odd", "reentrant by default")],
)  # fmt: skip
@pytest.mark.slow
def test_the_remedy_is_that_of_the_version(version: str, text: str) -> None:
    own = tried(order(), order(reentrant=True, ended=RAISED), transformers=version)
    assert text in (judge(own).fix or "")
    both = tried(order(ended=RAISED), order(reentrant=True), transformers=version)
    assert "order is not the cause" in (judge(both).fix or "")

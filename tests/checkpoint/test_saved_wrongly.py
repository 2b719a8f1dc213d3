"""What a save left out or took from elsewhere, as people save, and sound neighbours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from judges import judge

from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Problem
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")
save_file = pytest.importorskip("safetensors.torch").save_file

FILES, CONFIG, NORMS = judge("CKP001"), judge("CKP012"), judge("CKP004")
DTYPES, STEPPED = judge("CKP003"), judge("CKP009")


def scanned(path: Path, **request: Any) -> Checkpoint:
    found = read(ScanRequest(path=str(path), **request), no_stage, lambda note: None)
    assert isinstance(found, Checkpoint), found
    return found


def folder(path: Path, config: dict[str, Any], tensors: dict[str, Any], steps: int = 0) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    save_file(tensors, path / "model.safetensors", {"format": "pt"})
    if steps:
        (path / "trainer_state.json").write_text(json.dumps({"global_step": steps}))
    return path


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("adapter_model.safetensors", {"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"]}),
        ("adapter_model.bin", {"peft_type": "LORA", "r": 8}),
        ("model.safetensors", {"model_type": "llama"}),
        ("pytorch_model.bin", {"model_type": "bert"}),
    ],
)
@pytest.mark.parametrize("tensors", [{}, {"a.lora_A.weight": torch.empty(0)}])
def test_files_without_values(
    tmp_path: Path, name: str, config: dict[str, Any], tensors: dict[str, Any]
) -> None:
    described = "adapter_config.json" if name.startswith("adapter") else "config.json"
    (tmp_path / described).write_text(json.dumps(config))
    if name.endswith(".bin"):
        torch.save(tensors, tmp_path / name)
    else:
        save_file(tensors, tmp_path / name, {"format": "pt"})
    verdict = FILES(checkpoint=scanned(tmp_path))
    assert verdict.status is Status.FAIL
    assert ("gathered" in (verdict.fix or "")) is bool(tensors)
    replaced = not tensors and name.startswith("adapter")
    assert ("model.state_dict" in (verdict.fix or "")) is replaced
    assert verdict.sources == ("trl-4416", *["peft-286"] * replaced)


@pytest.mark.parametrize("tensors", [{}, {"steps": torch.tensor(3)}])
def test_a_file_of_ones_own_may_hold_nothing(tmp_path: Path, tensors: dict[str, Any]) -> None:
    torch.save({"epoch": 3, "state": tensors}, tmp_path / "own.pt")
    assert FILES(checkpoint=scanned(tmp_path)).status is not Status.FAIL


BERT = {"bert.embeddings.word_embeddings.weight": (40, 8), "bert.encoder.layer.0.w.weight": (8, 8)}
BARE = {"embeddings.word_embeddings.weight": (40, 8), "encoder.layer.0.w.weight": (8, 8)}
LLAMA = {"model.embed_tokens.weight": (40, 8), "model.layers.0.mlp.up_proj.weight": (8, 8)}
AUDIO = {"wav2vec2.encoder.layers.0.final_layer_norm.weight": (8,)}
VIT = {"vit.embeddings.cls_token": (1, 1, 8), "vit.layernorm.weight": (8,)}
HEADS = [
    ("BertForSequenceClassification", BERT, {"classifier.weight": (2, 8)}),
    ("BertForTokenClassification", BARE, {"classifier.weight": (2, 8)}),
    ("BertForQuestionAnswering", BERT, {"qa_outputs.weight": (2, 8)}),
    ("LlamaForSequenceClassification", LLAMA, {"score.weight": (2, 8)}),
    ("Wav2Vec2ForCTC", AUDIO, {"lm_head.weight": (30, 8)}),
    ("ViTForImageClassification", VIT, {"classifier.weight": (2, 8)}),
    ("PerceiverForSequenceClassification", {"perceiver.e.weight": (8,)},
     {"perceiver.decoder.decoder.final_layer.weight": (2, 8)}),
]  # fmt: skip


def made(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    return {name: torch.randn(shape) for name, shape in shapes.items()}


@pytest.mark.parametrize(("task", "below", "head"), HEADS)
def test_the_head_of_a_task(
    tmp_path: Path, task: str, below: dict[str, Any], head: dict[str, Any]
) -> None:
    config = {"model_type": "x", "architectures": [task]}
    for steps, status in ((0, Status.WARN), (150, Status.FAIL)):
        without = CONFIG(
            checkpoint=scanned(folder(tmp_path / f"{steps}", config, made(below), steps))
        )
        assert without.status is status
        assert task in without.summary
    whole = folder(tmp_path / "whole", config, made({**below, **head}), 150)
    assert "head" not in CONFIG(checkpoint=scanned(whole)).summary
    backbone = {**config, "architectures": ["BertModel"]}
    alone = folder(tmp_path / "backbone", backbone, made(below), 150)
    assert "head" not in CONFIG(checkpoint=scanned(alone)).summary


SIZES = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 40}
ROWS = {"q_proj": 64, "k_proj": 16, "v_proj": 16, "gate_proj": 96}


def projections(**rows: int) -> dict[str, Any]:
    named = {
        "model.embed_tokens.weight": torch.randn(40, 64),
        "lm_head.weight": torch.randn(40, 64),
    }
    for name, size in {**ROWS, **rows}.items():
        named[f"model.layers.0.x.{name}.weight"] = torch.randn(size, 64)
    for norm in ("layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"):
        named[f"model.{norm}.weight"] = torch.rand(64)
    return named


@pytest.mark.parametrize(
    ("rows", "entries", "fix"),
    [
        ({}, {}, '"num_key_value_heads": 2'),
        ({}, {"num_key_value_heads": 4}, '"num_key_value_heads": 2'),
        ({"q_proj": 128, "k_proj": 128, "v_proj": 128}, {}, '"head_dim": 16'),
        ({"q_proj": 128, "k_proj": 32, "v_proj": 32}, {"num_key_value_heads": 2}, '"head_dim": 16'),
        ({}, {"num_key_value_heads": 2, "intermediate_size": 128}, '"intermediate_size": 96'),
        ({}, {"num_key_value_heads": 2, "hidden_size": 32, "head_dim": 8}, '"hidden_size": 64'),
        ({}, {"num_key_value_heads": 2}, ""),
        ({}, {"intermediate_size": 128, "num_hidden_layers": 4}, "from the same save"),
        (
            {"q_proj": 128, "k_proj": 32, "v_proj": 32},
            {"num_key_value_heads": 2, "head_dim": 16},
            "",
        ),
    ],
)
def test_the_entry_that_would_fit(
    tmp_path: Path, rows: dict[str, int], entries: dict[str, int], fix: str
) -> None:
    verdict = CONFIG(
        checkpoint=scanned(folder(tmp_path / "m", SIZES | entries, projections(**rows)))
    )
    assert verdict.status is (Status.FAIL if fix else Status.PASS), verdict.summary
    assert fix in (verdict.fix or "")


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({}, Status.FAIL),
        ({"num_labels": 3}, Status.FAIL),
        ({"id2label": {"0": "a", "1": "b"}}, Status.FAIL),
        ({"id2label": {str(n): "x" for n in range(5)}}, Status.PASS),
        ({"num_labels": 5}, Status.PASS),
        ({"num_labels": 5, "max_position_embeddings": 30}, Status.PASS),
        ({"num_labels": 5, "max_position_embeddings": 32}, Status.PASS),
        ({"num_labels": 5, "max_position_embeddings": 16}, Status.FAIL),
        ({"num_labels": 3, "auto_map": {"AutoModel": "modeling_own.Own"}}, Status.SKIP),
    ],
)
def test_labels_and_positions(tmp_path: Path, config: dict[str, Any], status: Status) -> None:
    task = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    tensors = made(BERT) | {
        "classifier.weight": torch.randn(5, 8),
        "bert.embeddings.position_embeddings.weight": torch.randn(32, 8),
        "bert.encoder.layer.0.w.bias": torch.randn(8),
    }
    verdict = CONFIG(checkpoint=scanned(folder(tmp_path / "m", task | config, tensors)))
    assert verdict.status is status, verdict.summary


LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0}
V4 = {"rope_theta": 500000, "rope_scaling": {"type": "llama3", "factor": 8.0}}
GEMMA = {"full_attention": LLAMA3, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}


@pytest.mark.parametrize(
    ("before", "now", "status"),
    [
        ({"rope_parameters": LLAMA3}, {"rope_parameters": {"rope_type": "linear", "factor": 2.0}},
         Status.WARN),
        ({"rope_theta": 500000.0}, {"rope_theta": 10000.0}, Status.WARN),
        (V4, {"rope_theta": 500000.0, "rope_scaling": None}, Status.WARN),
        ({"hidden_act": "gelu_new"}, {"hidden_act": "relu"}, Status.WARN),
        ({"rms_norm_eps": 1e-6}, {"rms_norm_eps": 1e-5}, Status.WARN),
        ({"text_config": {"final_logit_softcapping": 30}},
         {"text_config": {"final_logit_softcapping": 50}}, Status.WARN),
        ({"rope_parameters": GEMMA},
         {"rope_parameters": GEMMA | {"sliding_attention": {**LLAMA3, "rope_theta": 1.0}}},
         Status.WARN),
        ({"rope_theta": 1e4, "rope_scaling": None},
         {"rope_theta": 1e6, "rope_scaling": {"rope_type": "yarn", "factor": 4}}, Status.NOTE),
        ({"rope_theta": 1e6, "rope_scaling": None}, {"rope_scaling": None}, Status.WARN),
        ({"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 8.0}}, {}, Status.WARN),
        ({"rope_theta": 1e4, "rope_scaling": None}, {}, Status.PASS),
        ({"rope_theta": 1e6, "model_type": "smollm3"}, {"model_type": "smollm3"}, Status.PASS),
        ({"rope_theta": 1e6}, {"rope_parameters": {"full_attention": LLAMA3}}, Status.PASS),
        ({"rope_theta": 1e6}, {"rotary_emb_base": 1000000}, Status.PASS),
        (V4, {"rope_parameters": LLAMA3}, Status.PASS),
        ({"rope_theta": 1e4, "rope_scaling": None},
         {"rope_theta": 1e4, "rope_scaling": {"rope_type": "yarn", "factor": 4}}, Status.NOTE),
        ({"rms_norm_eps": 1e-6, "use_cache": True, "rope_theta": 10000},
         {"rms_norm_eps": 1e-6, "use_cache": False, "attention_dropout": 0.1,
          "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}, Status.PASS),
    ],
)  # fmt: skip
def test_settings_of_the_model_that_it_comes_from(
    tmp_path: Path, before: dict[str, Any], now: dict[str, Any], status: Status
) -> None:
    sizes = SIZES | {"num_key_value_heads": 2}
    base = folder(tmp_path / "base", sizes | before, projections())
    tuned = folder(tmp_path / "tuned", sizes | now, projections())
    verdict = CONFIG(checkpoint=scanned(tuned, baseline=str(base)))
    assert verdict.status is status, verdict.summary
    if status is Status.WARN:
        assert "Restore" in (verdict.fix or "")


def net(batches: int, prefix: str = "") -> dict[str, Any]:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
    torch.nn.init.uniform_(model[1].weight, 0.5, 1.5)
    for _ in range(batches):
        model(torch.randn(2, 3, 4, 4) + 1)
    return {prefix + name: value for name, value in model.state_dict().items()}


@pytest.mark.parametrize(
    ("state", "copy"),
    [
        ({"state_dict": net(9), "state_dict_ema": net(0)}, "state_dict_ema"),
        ({"model": net(9), "ema": net(0, "module.")}, "ema"),
        ({"model": net(9), "swa_model": net(0)}, "swa_model"),
        ({"state_dict": {**net(9, "net."), **net(0, "ema_net.")}}, "ema_net"),
        ({"state_dict": {**net(9, "encoder_q."), **net(0, "teacher.")}}, "teacher"),
        ({"state_dict": net(9), "state_dict_ema": net(9)}, ""),
        ({"state_dict": net(0), "state_dict_ema": net(0)}, ""),
        ({"G": net(9), "D": net(9)}, ""),
    ],
)
def test_statistics_of_an_average(tmp_path: Path, state: dict[str, Any], copy: str) -> None:
    torch.save(state, tmp_path / "model_best.pth.tar")
    verdict: Verdict = NORMS(checkpoint=scanned(tmp_path))
    assert (verdict.status is Status.WARN) is bool(copy), verdict.summary
    assert copy in verdict.summary


def test_a_model_that_was_trained_in_eval(tmp_path: Path) -> None:
    torch.save({"model": net(0), "global_step": 50}, tmp_path / "a.pt")
    verdict = NORMS(checkpoint=scanned(tmp_path))
    assert verdict.status is Status.WARN
    assert "model.train()" in (verdict.fix or "")


@pytest.mark.parametrize(
    "name", ["model_best.pth.tar", "epoch_10", "G_1000.model", "net.params", "last.torch", "x.tar"]
)
@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_any_name(tmp_path: Path, name: str, zipped: bool) -> None:
    """Beside what is no checkpoint."""
    (tmp_path / "summary.csv").write_text("epoch,loss\n")
    (tmp_path / "archive.zip").write_bytes(b"PK\x03\x04" + b"\0" * 600)
    torch.save(net(3), tmp_path / name, _use_new_zipfile_serialization=zipped)
    assert scanned(tmp_path).contents.tensors == 7


def two_shards(path: Path, second: Any, mixed: bool = False) -> Path:
    """Layers 0 and 1 in bf16, and layer 2 in another dtype, in a file of its own or not."""
    weights = {f"model.layers.{n}.mlp.up_proj.weight": torch.ones(8, 8) for n in range(3)}
    tensors = {n: t.to(second if ".2." in n else torch.bfloat16) for n, t in weights.items()}
    names = list(tensors)
    path.mkdir()
    files = {name: f"model-0000{1 + (at == (1 if mixed else 2))}-of-00002.safetensors"
             for at, name in enumerate(names)}  # fmt: skip
    for file in set(files.values()):
        save_file({n: tensors[n] for n in names if files[n] == file}, path / file, {"format": "pt"})
    index = {"metadata": {"total_size": 0}, "weight_map": files}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return path


@pytest.mark.parametrize(
    ("second", "mixed", "status", "fix"),
    [
        (torch.float32, False, Status.WARN, "from one save"),
        (torch.float32, True, Status.WARN, ""),
        (torch.bfloat16, False, Status.PASS, ""),
    ],
)
def test_shards_of_two_dtypes(
    tmp_path: Path, second: Any, mixed: bool, status: Status, fix: str
) -> None:
    verdict = DTYPES(checkpoint=scanned(two_shards(tmp_path / "m", second, mixed)))
    assert verdict.status is status, verdict.summary
    assert bool(verdict.fix) is bool(fix)
    assert fix in (verdict.fix or "")


def stepped(module: Any, trained: list[Any], loss: Any) -> dict[str, Any]:
    optimizer = torch.optim.Adam(trained)
    for _ in range(20):
        optimizer.zero_grad()
        loss(module, torch.randn(16, 4), torch.randn(16, 4)).backward()
        optimizer.step()
    state = {"model": module.state_dict(), "optimizer": optimizer.state_dict()}
    return state | {"global_step": 20}


def network(outputs: int) -> Any:
    torch.manual_seed(0)
    layers = (torch.nn.Linear(4, 8, bias=False), torch.nn.LayerNorm(8))
    return torch.nn.Sequential(*layers, torch.nn.Linear(8, outputs))


@pytest.mark.parametrize(("outputs", "status"), [(1, Status.PASS), (2, Status.WARN)])
def test_a_bias_that_cancels(tmp_path: Path, outputs: int, status: Status) -> None:
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, outputs)
    )
    state = stepped(module, [*module.parameters()], lambda m, a, b: (m(a) - m(b)).mean())
    torch.save(state, tmp_path / "a.pt")
    verdict = STEPPED(checkpoint=scanned(tmp_path))
    assert verdict.status is status, verdict.summary


def test_a_state_that_was_left_out(tmp_path: Path) -> None:
    module = network(1)
    state = stepped(module, [*module.parameters()], lambda m, a, b: m(a).square().mean())
    state["optimizer"]["state"] = {}
    torch.save(state, tmp_path / "a.pt")
    verdict = STEPPED(checkpoint=scanned(tmp_path))
    assert verdict.status is Status.FAIL, verdict.summary
    assert "left out" in verdict.summary


@pytest.mark.parametrize(("head", "status"), [(True, Status.WARN), (False, Status.FAIL)])
def test_norms_that_are_in_no_group(tmp_path: Path, head: bool, status: Status) -> None:
    """With all that stands before the head, or alone."""
    module = network(1)
    norm = {id(p) for p in module[1].parameters()}
    trained = list(module[2].parameters()) if head else [p for p in module.parameters()]
    torch.save(
        stepped(module, [p for p in trained if id(p) not in norm][: 1 if head else None],
                lambda m, a, b: m(a).square().mean()), tmp_path / "a.pt"
    )  # fmt: skip
    verdict = NORMS(checkpoint=scanned(tmp_path))
    assert verdict.status is status, verdict.summary


@pytest.mark.parametrize(("kind", "status"), [
    ("damaged", Status.UNKNOWN), ("missing", Status.UNKNOWN), ("note", Status.NOTE),
])  # fmt: skip
def test_state_that_a_damaged_file_held_accuses_no_parameter(
    tmp_path: Path, kind: Any, status: Status
) -> None:
    module = network(1)
    state = stepped(module, [*module.parameters()], lambda m, a, b: m(a).square().mean())
    del state["optimizer"]["state"][0]
    torch.save(state, tmp_path / "a.pt")
    problem = Problem(kind=kind, file="__0_0.distcp", text="is cut short")
    checkpoint = msgspec.structs.replace(scanned(tmp_path), problems=(problem,))
    assert STEPPED(checkpoint=checkpoint).status is status


def test_a_link_whose_file_was_not_copied(tmp_path: Path) -> None:
    (tmp_path / "last.ckpt").symlink_to("epoch=3-step=1200.ckpt")
    verdict = FILES(checkpoint=scanned(tmp_path))
    assert verdict.status is Status.FAIL
    assert "cp -rL" in (verdict.fix or "")


def state(bad: float = 0.5) -> dict[str, Any]:
    weight = torch.linspace(-1, 1, 64).reshape(8, 8)
    weight[3, 4] = bad
    return {"a.weight": weight, "b.weight": weight.T.contiguous() * 2}


@pytest.mark.parametrize("limit", [1 << 20, 100])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.5])
def test_values_of_small_files_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, bad: float
) -> None:
    monkeypatch.setattr("doctor.checkpoint.contents.SMALL", limit)
    torch.save(state(bad), tmp_path / "a.pt")
    verdict = judge("CKP005")(checkpoint=scanned(tmp_path))
    small = Status.PASS if bad == 0.5 else Status.FAIL
    assert verdict.status is (small if limit > 1000 else Status.SKIP), verdict.summary


@pytest.mark.parametrize(
    ("steps", "moved", "status"),
    [(60, 0.0, Status.WARN), (60, 1e-3, Status.PASS), (5, 0.0, Status.PASS), (0, 0.0, Status.PASS)],
)
def test_an_average_that_is_the_model(
    tmp_path: Path, steps: int, moved: float, status: Status
) -> None:
    """The steps are the optimizer's alone, as timm saves them."""
    average = {name: value + moved for name, value in state().items()}
    moments = {"step": torch.tensor(float(steps)), "exp_avg": state()["a.weight"] / 9}
    optimizer = {
        "state": {0: {**moments, "exp_avg_sq": moments["exp_avg"].square()}} if steps else {},
        "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "params": [0]}],
    }
    saved = {"epoch": 2, "state_dict": state(), "state_dict_ema": average, "optimizer": optimizer}
    torch.save(saved, tmp_path / "checkpoint-2.pth.tar")
    assert judge("CKP005")(checkpoint=scanned(tmp_path)).status is not Status.WARN
    verdict = judge("CKP005")(checkpoint=scanned(tmp_path, deep=True))
    assert (verdict.status is Status.WARN) is (status is Status.WARN), verdict.summary


def test_norms_in_a_hole_of_the_file(tmp_path: Path) -> None:
    """A download that reserved the file's size and stopped blames no training."""
    tensors = {f"layers.{n}.mlp.weight": torch.randn(2048, 1024) for n in range(4)}
    tensors |= {f"layers.{n}.norm.weight": torch.rand(1024) + 0.5 for n in range(4)}
    save_file(tensors, tmp_path / "model.safetensors")
    assert NORMS(checkpoint=scanned(tmp_path)).status is Status.PASS
    size = (tmp_path / "model.safetensors").stat().st_size
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.seek(size - (12 << 20))
        file.write(bytes(12 << 20))
    found = scanned(tmp_path)
    verdict = NORMS(checkpoint=found)
    assert verdict.status is Status.UNKNOWN, verdict.summary
    assert judge("CKP005")(checkpoint=found).status is Status.WARN


@pytest.mark.parametrize(
    ("tag", "words"), [("global_step5", ""), ("global_step9", "; global_step5 is")]
)
def test_latest_names_a_directory_that_is_not_here(tmp_path: Path, tag: str, words: str) -> None:
    (tmp_path / "global_step5").mkdir()
    torch.save({"module": state()}, tmp_path / "global_step5/mp_rank_00_model_states.pt")
    (tmp_path / "latest").write_text(tag)
    verdict = FILES(checkpoint=scanned(tmp_path))
    assert (verdict.status is Status.FAIL) is bool(words), verdict.summary
    assert words in verdict.summary
    assert ("printf" in (verdict.fix or "")) is bool(words)


NEW = {
    "modulation": {"blocks.0.fc.weight": torch.zeros(8, 8)},
    "positions": {"pos_embed": torch.zeros(1, 5, 8), "type_embed.weight": torch.zeros(3, 8)},
    "rows": {"embed_tokens.weight": torch.cat([torch.ones(4, 8) / 3, torch.zeros(6, 8)])},
    "copies": {"layers.1.fc.weight": torch.ones(8, 8), "layers.2.fc.weight": torch.ones(8, 8)},
}


@pytest.mark.parametrize("name", NEW)
def test_what_new_models_hold_is_told_on_request(tmp_path: Path, name: str) -> None:
    torch.save({"model": {**state(), **NEW[name]}}, tmp_path / "a.pt")
    verdict = judge("CKP005")(checkpoint=scanned(tmp_path))
    assert verdict.status in (Status.PASS, Status.NOTE), verdict.summary


@pytest.mark.parametrize("steps", [50, 0])
def test_a_matrix_of_zeros_on_request(tmp_path: Path, steps: int) -> None:
    counted = {"global_step": steps} if steps else {}
    torch.save({"model": {**state(), **NEW["modulation"]}, **counted}, tmp_path / "a.pt")
    assert judge("CKP005")(checkpoint=scanned(tmp_path)).status is not Status.WARN
    verdict = judge("CKP005")(checkpoint=scanned(tmp_path, deep=True))
    assert verdict.status is Status.WARN, verdict.summary


def test_what_cannot_be_decoded_is_not_missed_without_a_request(tmp_path: Path) -> None:
    save_file({"a.weight": torch.arange(9)}, tmp_path / "model.safetensors")
    assert judge("CKP005")(checkpoint=scanned(tmp_path)).status is Status.PASS
    (tmp_path / "model.safetensors").unlink()
    from saved_layouts import gguf, model_of_gguf

    (tmp_path / "model.gguf").write_bytes(gguf(model_of_gguf()))
    assert judge("CKP005")(checkpoint=scanned(tmp_path)).status is Status.SKIP
    assert judge("CKP005")(checkpoint=scanned(tmp_path, deep=True)).status is Status.UNKNOWN


INF = float("inf")


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("fc.weight", float("nan"), Status.FAIL),
        ("bn.running_var", float("nan"), Status.FAIL),
        ("q_proj.lora_B.default.weight", INF, Status.FAIL),
        ("fc.activation_post_process.min_val", INF, Status.SKIP),
        ("normalize_inputs.buffer_state.mean", INF, Status.SKIP),
        ("tril", -INF, Status.PASS),
        ("attention_mask", -INF, Status.PASS),
    ],
)
def test_buffers_that_begin_at_infinity(
    tmp_path: Path, name: str, value: float, status: Status
) -> None:
    torch.save({**state(), name: torch.full((4, 4), value).triu(1)}, tmp_path / "a.pt")
    verdict = judge("CKP005")(checkpoint=scanned(tmp_path))
    assert verdict.status is status, verdict.summary
    if status is Status.SKIP:
        assert name in verdict.summary
        assert judge("CKP005")(checkpoint=scanned(tmp_path, deep=True)).status is Status.FAIL


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("fc.activation_post_process.min_val", torch.tensor(INF), Status.NOTE),
        ("normalize_inputs.buffer_state.mean", torch.full((7,), INF), Status.NOTE),
        ("tril", torch.full((8, 8), -INF), Status.NOTE),
        ("logit_scale", torch.tensor(INF), Status.FAIL),
        ("fc.weight", torch.full((8, 8), INF), Status.FAIL),
        ("queue", torch.full((8,), INF).half(), Status.FAIL),
        ("prototypes", torch.tensor([INF, 1.0]), Status.FAIL),
    ],
)
def test_buffers_of_one_infinity_alone(
    tmp_path: Path, name: str, value: torch.Tensor, status: Status
) -> None:
    torch.save({**state(), name: value}, tmp_path / "a.pt")
    verdict = judge("CKP005")(checkpoint=scanned(tmp_path, deep=True))
    assert (verdict.status, name in verdict.summary) == (status, True), verdict.summary

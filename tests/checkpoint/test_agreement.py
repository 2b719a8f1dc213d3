"""CKP012 to CKP014: whether configuration, tokenizer, adapter and optimizer fit the weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checkpoints import checkpoint as built
from healthy_folders import adapter, make, plain_model, saved_transformer, trained, with_tokenizer
from judges import judge

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Fit, LoraFit, Optimizer, Problem, Size
from doctor.checkpoint.scan import scan
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")
load_file = pytest.importorskip("safetensors.torch").load_file
save_file = pytest.importorskip("safetensors.torch").save_file

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIG, ADAPTER, OPTIMIZER = judge("CKP012"), judge("CKP013"), judge("CKP014")


def scanned(path: Path) -> Checkpoint:
    checkpoint = scan(str(path))
    assert isinstance(checkpoint, Checkpoint), checkpoint
    return checkpoint


def saved(path: Path, kind: str = "llama") -> Path:
    make(path, lambda folder: saved_transformer(folder, kind))
    return path


def edit(path: Path, **changes: Any) -> None:
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, **changes}))


@pytest.mark.parametrize("kind", ["llama", "bert", "gpt2"])
def test_sizes_of_the_configuration(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path / "m", kind)
    assert CONFIG(checkpoint=scanned(folder)).status is Status.PASS
    layers = "n_layer" if kind == "gpt2" else "num_hidden_layers"
    hidden = "n_embd" if kind == "gpt2" else "hidden_size"
    good = (folder / "config.json").read_text()
    for change, status in (
        ({layers: 4}, Status.FAIL),
        ({layers: 1}, Status.WARN),
        ({hidden: 48}, Status.FAIL),
        ({"vocab_size": 80}, Status.FAIL),
        ({"vocab_size": 30}, Status.FAIL),
    ):
        edit(folder / "config.json", **change)
        verdict = CONFIG(checkpoint=scanned(folder))
        assert verdict.status is status, change
        assert str(next(iter(change.values()))) in verdict.summary
        (folder / "config.json").write_text(good)


@pytest.mark.parametrize(
    "change", [{"intermediate_size": 48}, {"num_key_value_heads": 1}, {"head_dim": 16}]
)
def test_projections_of_known_families(tmp_path: Path, change: dict[str, int]) -> None:
    folder = saved(tmp_path / "m")
    edit(folder / "config.json", **change)
    assert CONFIG(checkpoint=scanned(folder)).status is Status.FAIL


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda weight: weight + 0.5, Status.WARN),
        (lambda weight: weight.clone(), Status.PASS),
        (lambda weight: weight.bfloat16(), Status.PASS),
        (lambda weight: torch.cat([weight, weight[:8] * 0]), Status.PASS),
        (lambda weight: weight[:, :4] + 1, Status.PASS),
    ],
)
def test_a_head_of_its_own_in_a_tied_model(
    tmp_path: Path, change: Callable[[Any], Any], status: Status
) -> None:
    """A copy of the embedding, cast or with padded rows, is how tied models are saved, too."""
    folder = saved(tmp_path / "m")
    edit(folder / "config.json", tie_word_embeddings=True)
    weights = load_file(folder / "model.safetensors")
    head = change(weights["model.embed_tokens.weight"]).contiguous()
    save_file({**weights, "lm_head.weight": head}, folder / "model.safetensors")
    verdict = CONFIG(checkpoint=scanned(folder))
    assert verdict.status is status, verdict.summary
    assert ("tie_word_embeddings" in (verdict.fix or "")) == (status is Status.WARN)


@pytest.mark.parametrize(
    ("file", "prefix", "status"),
    [
        ("model.safetensors", "module.", Status.FAIL),
        ("model.safetensors", "_orig_mod.", Status.FAIL),
        ("model.safetensors", "base_model.model.", Status.FAIL),
        ("model.safetensors", "", Status.PASS),
        ("own_loop.safetensors", "module.", Status.NOTE),
    ],
)
def test_names_of_a_wrapper(tmp_path: Path, file: str, prefix: str, status: Status) -> None:
    from safetensors.torch import load_file, save_file

    folder = saved(tmp_path / "m")
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    renamed = {f"{prefix}{name}": value for name, value in state.items()}
    save_file(renamed, folder / file, metadata={"format": "pt"})
    verdict = CONFIG(checkpoint=scanned(folder))
    assert verdict.status is status
    assert (prefix in verdict.summary) is (status is not Status.PASS or not prefix)


@pytest.mark.parametrize(("emptied", "status"), [(2, Status.FAIL), (1, Status.PASS)])
def test_tensors_without_values(tmp_path: Path, emptied: int, status: Status) -> None:
    """As ZeRO-3 leaves matrices in a state dict that was not gathered."""
    folder = saved(tmp_path / "m")
    state = load_file(folder / "model.safetensors")
    empty = {name: torch.empty(0) if len(t.shape) == emptied else t for name, t in state.items()}
    save_file(empty, folder / "model.safetensors", metadata={"format": "pt"})
    verdict = CONFIG(checkpoint=scanned(folder))
    assert (verdict.status is Status.FAIL) is (status is Status.FAIL), verdict.summary
    assert ("ZeRO-3" in verdict.summary) is (status is Status.FAIL)


def test_a_head_that_is_not_in_the_files(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", "tied")
    assert CONFIG(checkpoint=scanned(folder)).status is Status.PASS
    edit(folder / "config.json", tie_word_embeddings=False)
    verdict = CONFIG(checkpoint=scanned(folder))
    assert verdict.status is Status.FAIL
    assert "head" in verdict.summary


def test_a_head_of_several_modules(tmp_path: Path) -> None:
    """lm_head.ln and lm_head.linear, as in the first form of Phi."""
    from safetensors.torch import load_file, save_file

    folder = saved(tmp_path / "m", "tied")
    edit(folder / "config.json", tie_word_embeddings=False)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    head = {"lm_head.ln.weight": torch.ones(8), "lm_head.linear.weight": torch.ones(40, 8)}
    save_file({**tensors, **head}, path, {"format": "pt"})
    assert CONFIG(checkpoint=scanned(folder)).status is Status.PASS
    layer = {"model.decoder.layers.weight": torch.ones(8)}
    save_file({**tensors, **layer}, path, {"format": "pt"})
    assert CONFIG(checkpoint=scanned(folder)).status is Status.FAIL


def test_tokens_without_a_row(tmp_path: Path) -> None:
    make(tmp_path / "m", with_tokenizer)
    path = tmp_path / "m/tokenizer.json"
    assert CONFIG(checkpoint=scanned(tmp_path / "m")).status is Status.PASS
    edit(path, added_tokens=[{"id": 70, "content": "<pad>"}])
    verdict = CONFIG(checkpoint=scanned(tmp_path / "m"))
    assert verdict.status is Status.FAIL
    assert "70" in verdict.summary
    edit(path, added_tokens=[], model={"vocab": {"a": 0, "b": 41}})
    assert CONFIG(checkpoint=scanned(tmp_path / "m")).status is Status.FAIL
    edit(path, model={"vocab": [["a", 0.0]] * 40})
    assert CONFIG(checkpoint=scanned(tmp_path / "m")).status is Status.PASS


def test_a_tokenizer_that_nothing_relates_to_the_weights(tmp_path: Path) -> None:
    """A file of torch.save and no config.json: their directory is all that they share."""
    make(tmp_path / "m", with_tokenizer)
    edit(tmp_path / "m/tokenizer.json", model={"vocab": {"a": 0, "b": 4_100}})
    shutil.copytree(tmp_path / "m", tmp_path / "described")
    for folder in (tmp_path / "m", tmp_path / "described"):
        weights = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        torch.save(weights, folder / "tiny.pt")
    (tmp_path / "m/config.json").unlink()
    verdict = CONFIG(checkpoint=scanned(tmp_path / "m/tiny.pt"))
    assert (verdict.status, "no config.json" in verdict.summary) == (Status.WARN, True)
    assert CONFIG(checkpoint=scanned(tmp_path / "described/tiny.pt")).status is Status.FAIL


@pytest.mark.parametrize(
    ("vocabulary", "model", "status"),
    [
        ({}, b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", Status.WARN),
        ([], b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", Status.WARN),
        ({"a": 0}, b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", Status.PASS),
        ({}, b"version https://git-lfs.github.com/spec/v1\n", Status.PASS),
        ({}, None, Status.PASS),
    ],
)
def test_an_empty_vocabulary_beside_a_model_of_sentencepiece(
    tmp_path: Path, vocabulary: object, model: bytes | None, status: Status
) -> None:
    make(tmp_path / "m", with_tokenizer)
    edit(tmp_path / "m/config.json", eos_token_id=None, bos_token_id=None, pad_token_id=3)
    added = [{"id": 2, "content": "<pad>"}]
    edit(tmp_path / "m/tokenizer.json", added_tokens=added, model={"vocab": vocabulary})
    edit(tmp_path / "m/tokenizer_config.json", pad_token="<pad>")
    if model is not None:
        (tmp_path / "m/own.model").write_bytes(model)
    verdict = CONFIG(checkpoint=scanned(tmp_path / "m"))
    assert verdict.status is status, verdict.summary
    padding = judge("CKP011")(checkpoint=scanned(tmp_path / "m"))
    assert padding.status is Status.WARN  # another number than config.json's
    if status is Status.WARN:
        assert "own.model" in verdict.summary
        assert (padding.fix or "").startswith("Write tokenizer.json again")


def test_a_configuration_that_is_cut(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text[: len(text) // 2])
    assert CONFIG(checkpoint=scanned(folder)).status is Status.FAIL
    (folder / "config.json").unlink()
    assert CONFIG(checkpoint=scanned(folder)).status is Status.WARN


def test_what_is_not_compared() -> None:
    wrong = Size(quantity="hidden size", configured=(8,), stored=4, tensor="e")
    layers = Size(quantity="layers", configured=(8,), stored=4, tensor="layers")
    assert CONFIG(checkpoint=built(sizes=(wrong,), quantized=True)).status is Status.SKIP
    assert CONFIG(checkpoint=built(sizes=(layers,), quantized=True)).status is Status.FAIL
    problem = Problem(kind="not-inspectable", file="m.bin", text="is strange")
    assert CONFIG(checkpoint=built(problems=(problem,))).status is Status.UNKNOWN
    assert CONFIG(checkpoint=built(tensors=0)).status is Status.UNKNOWN


def lora(folder: Path, kind: str = "lora") -> Path:
    make(folder, lambda path: adapter(path, kind))
    return folder


def test_an_adapter_and_its_configuration(tmp_path: Path) -> None:
    folder = lora(tmp_path / "a")
    path = folder / "adapter_config.json"
    good = path.read_text()
    assert ADAPTER(checkpoint=scanned(folder)).status is Status.PASS
    for change, status in (
        ({"r": 16}, Status.FAIL),
        ({"lora_alpha": 0}, Status.FAIL),
        ({"target_modules": ["q_proj", "v_proj", "o_proj"]}, Status.WARN),
        ({"target_modules": ["q_proj"]}, Status.WARN),
        ({"target_modules": r".*\.(q|v)_proj"}, Status.PASS),
        ({"r": 16, "rank_pattern": {"q_proj": 4, "v_proj": 4}}, Status.PASS),
        ({"r": None}, Status.UNKNOWN),
        ({"peft_type": "VERA"}, Status.SKIP),
    ):
        edit(path, **change)
        assert ADAPTER(checkpoint=scanned(folder)).status is status, change
        path.write_text(good)


@pytest.mark.parametrize(("largest", "small"), [(4e-4, True), (0.04, False)])
def test_an_adapter_that_hardly_left_zero_passes_with_the_figure(
    largest: float, small: bool, tmp_path: Path
) -> None:
    """A preference tuning at a low rate looks the same."""
    folder = lora(tmp_path / "a")
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    for name, each in tensors.items():
        if "lora_B" in name:
            tensors[name] = torch.full_like(each, -largest)
    save_file(tensors, path)
    verdict = ADAPTER(checkpoint=scanned(folder))
    assert verdict.status is Status.PASS
    assert ("lora_B is at most 0.0004," in verdict.summary) is small


def test_norms_that_hardly_left_their_initial_value(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m")
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name, each in tensors.items():
        if "norm" in name:
            tensors[name] = torch.full_like(each, 1 + 2**-8)
    save_file(tensors, path, {"format": "pt"})
    verdict = judge("CKP004")(checkpoint=scanned(folder))
    assert verdict.status is Status.PASS
    assert "is within 0.0039 of 1.0" in verdict.summary


def test_an_adapter_that_was_never_trained(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = lora(tmp_path / "a")
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    zero = {name: each * (0 if "lora_B" in name else 1) for name, each in tensors.items()}
    save_file(zero, path)
    verdict = ADAPTER(checkpoint=scanned(folder))
    assert verdict.status is Status.FAIL
    assert "12 steps" in verdict.summary
    (folder / "optimizer.pt").unlink()
    assert ADAPTER(checkpoint=scanned(folder)).status is Status.NOTE  # as one that is shared
    torch.save({"learning_rate": 1e-4}, folder / "training_args.bin")
    assert ADAPTER(checkpoint=scanned(folder)).status is Status.WARN


def test_judges_of_adapters() -> None:
    fit = LoraFit(rank=4, stored_ranks={"4": 2}, alpha=8.0, b_tensors=2)
    assert ADAPTER(checkpoint=built(lora=fit)).status is Status.UNKNOWN
    problem = Problem(kind="not-inspectable", file="a.bin", text="is strange")
    unread = built(adapter="LORA", problems=(problem,))
    assert ADAPTER(checkpoint=unread).status is Status.UNKNOWN
    assert ADAPTER(checkpoint=built()).status is Status.SKIP


def optimizers(folder: Path, change: Callable[[dict[str, Any]], None]) -> Verdict:
    """The verdict on a model with an optimizer whose state was changed."""
    folder.mkdir()
    model = plain_model()
    state = trained(model).state_dict()
    change(state)
    torch.save({"model": model.state_dict(), "optimizer": state, "step": 12}, folder / "m.pt")
    return OPTIMIZER(checkpoint=scanned(folder))


def test_the_optimizer_of_another_model(tmp_path: Path) -> None:
    def other(state: dict[str, Any]) -> None:
        for entry in state["state"].values():
            entry["exp_avg"] = torch.ones(7, 5)
            entry["exp_avg_sq"] = torch.ones(7, 5)

    def cut(state: dict[str, Any]) -> None:
        state["param_groups"][0]["params"] = [0, 1]

    def loss(state: dict[str, Any]) -> None:
        state["state"][6] = {key: torch.ones(2) for key in ("exp_avg", "exp_avg_sq")}
        state["param_groups"][0]["params"].append(6)

    assert optimizers(tmp_path / "same", lambda state: None).status is Status.PASS
    verdict = optimizers(tmp_path / "other", other)
    assert verdict.status is Status.WARN
    assert "[7, 5]" in verdict.summary
    assert optimizers(tmp_path / "cut", cut).status is Status.WARN
    assert optimizers(tmp_path / "loss", loss).status is Status.NOTE
    # SentenceTransformerTrainer steps the weights of its loss too, which no file holds.
    (tmp_path / "loss" / "trainer_state.json").write_text('{"global_step": 3, "log_history": []}')
    assert OPTIMIZER(checkpoint=scanned(tmp_path / "loss")).status is Status.NOTE


def test_judges_of_optimizers() -> None:
    state = Optimizer(file="o.pt", kind="Adam", entries=4, parameters=4)
    assert OPTIMIZER(checkpoint=built(optimizer=state)).status is Status.SKIP
    unread = built(optimizer=Unknown(reason="cut short"))
    assert OPTIMIZER(checkpoint=unread).status is Status.UNKNOWN
    state = Optimizer(file="o.pt", kind="Adam", entries=4, parameters=4, fit=Fit(weights=4))
    assert OPTIMIZER(checkpoint=built(optimizer=state, tensors=0)).status is Status.UNKNOWN
    assert OPTIMIZER(checkpoint=built(optimizer=state, quantized=True)).status is Status.SKIP
    assert OPTIMIZER(checkpoint=built()).status is Status.SKIP


def test_a_resumed_run_without_its_optimizer(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m")
    torch.save({"last_epoch": 3}, folder / "scheduler.pt")
    (folder / "trainer_state.json").write_text('{"global_step": 20, "log_history": []}')
    assert OPTIMIZER(checkpoint=scanned(folder)).status is Status.WARN


@pytest.mark.parametrize(
    ("file", "change", "status"),
    [
        ("generation_config.json", {"eos_token_id": 39}, Status.PASS),
        ("generation_config.json", {"eos_token_id": [2, 39]}, Status.PASS),
        ("config.json", {"eos_token_id": 39}, Status.PASS),
        ("config.json", {"eos_token_id": None}, Status.PASS),
        ("config.json", {"pad_token_id": -1, "eos_token_id": 39}, Status.PASS),
        ("generation_config.json", {"eos_token_id": 128001}, Status.WARN),
        ("generation_config.json", {"eos_token_id": [39, 128009]}, Status.WARN),
        ("config.json", {"eos_token_id": 39, "bos_token_id": 50256}, Status.WARN),
        ("generation_config.json", {"eos_token_id": 39, "pad_token_id": 40}, Status.WARN),
        ("config.json", {"eos_token_id": 2}, Status.WARN),
        ("config.json", {"eos_token_id": 2, "architectures": ["LlamaModel"]}, Status.PASS),
    ],
)
def test_tokens_that_configurations_name(
    tmp_path: Path, file: str, change: dict[str, Any], status: Status
) -> None:
    make(tmp_path / "m", with_tokenizer)
    edit(tmp_path / "m" / "config.json", eos_token_id=None, bos_token_id=None, pad_token_id=38)
    (tmp_path / "m" / "generation_config.json").write_text("{}")
    tokenizer = tmp_path / "m" / "tokenizer.json"
    added = [{"id": 38, "content": "<pad>"}, {"id": 39, "content": "</s>"}]
    edit(tokenizer, added_tokens=added)
    edit(tmp_path / "m" / "tokenizer_config.json", eos_token="</s>")
    edit(tmp_path / "m" / file, **change)
    verdict = CONFIG(checkpoint=scanned(tmp_path / "m"))
    assert verdict.status is status, verdict.summary


def test_matrices_of_gpt2_in_the_order_of_linear(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", "gpt2")
    state = load_file(folder / "model.safetensors")
    turned = "h.1.attn.c_attn.weight"  # of one layer
    state = {k: v.T.contiguous() if k.endswith(turned) else v for k, v in state.items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    verdict = CONFIG(checkpoint=scanned(folder))
    assert verdict.status is Status.FAIL
    assert verdict.fix.startswith("Transpose")
    edit(folder / "config.json", n_embd=48)  # of another model
    assert not CONFIG(checkpoint=scanned(folder)).fix.startswith("Transpose")


def test_a_family_with_the_names_of_gpt2_and_linear_layers(tmp_path: Path) -> None:
    from transformers import GPTBigCodeConfig, GPTBigCodeForCausalLM

    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_inner": 48, "vocab_size": 40}
    model = GPTBigCodeForCausalLM(GPTBigCodeConfig(**sizes, n_positions=16))
    model.save_pretrained(tmp_path / "m")
    assert CONFIG(checkpoint=scanned(tmp_path / "m")).status is not Status.FAIL


def test_the_base_of_rope_beside_the_same_weights_and_beside_trained_ones(tmp_path: Path) -> None:
    now, then = saved(tmp_path / "now"), saved(tmp_path / "then")
    settings = json.loads((now / "config.json").read_text())
    rope = settings.get("rope_parameters", settings)
    rope["rope_theta"] = 500_000.0
    (now / "config.json").write_text(json.dumps(settings))
    shutil.copy(now / "model.safetensors", then / "model.safetensors")

    def judged() -> Verdict:
        request = ScanRequest(path=str(now), baseline=str(then))
        checkpoint = read(request, no_stage, lambda note: None)
        assert isinstance(checkpoint, Checkpoint)
        return CONFIG(checkpoint=checkpoint)

    copied = judged()
    assert copied.status is Status.WARN
    assert "all weights are the same" in copied.summary
    state = {k: v * 1.01 for k, v in load_file(now / "model.safetensors").items()}
    save_file(state, now / "model.safetensors", metadata={"format": "pt"})
    assert judged().status is Status.NOTE


CHATML = "{% for m in messages %}{{ '<|im_start|>' + m['content'] + '<|im_end|>' }}{% endfor %}"


def test_a_note_hides_no_warning(tmp_path: Path) -> None:
    """A base model with a ChatML template is a note; a head of its own beside it is not."""
    folder = saved(tmp_path / "m")
    with_tokenizer(folder)
    end = "<|im_end|>"
    tokens = json.loads((folder / "tokenizer.json").read_text())
    tokens["added_tokens"].append({"id": 5, "content": end, "special": True})
    (folder / "tokenizer.json").write_text(json.dumps(tokens))
    edit(folder / "tokenizer_config.json", chat_template=CHATML)
    edit(folder / "config.json", tie_word_embeddings=True)
    weights = load_file(folder / "model.safetensors")
    head = weights["model.embed_tokens.weight"] + 0.5
    save_file({**weights, "lm_head.weight": head}, folder / "model.safetensors")
    verdict = CONFIG(checkpoint=scanned(folder))
    assert verdict.status is Status.WARN
    assert "values of its own" in verdict.summary


@pytest.mark.parametrize(
    ("rows", "config", "status"),
    [
        (32, {}, Status.FAIL),
        (48, {}, Status.FAIL),
        (40, {}, Status.PASS),
        (48, {"tie_word_embeddings": True}, Status.PASS),
        (32, {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32}, Status.PASS),
        (32, {"architectures": ["MyForCausalLM"], "auto_map": {"AutoModel": "a.B"}}, Status.PASS),
        (32, {"model_type": "musicgen_decoder", "num_codebooks": 4}, Status.PASS),
    ],
)
def test_the_rows_of_a_head(
    tmp_path: Path, rows: int, config: dict[str, Any], status: Status
) -> None:
    folder = saved(tmp_path / "m")
    edit(folder / "config.json", **{"tie_word_embeddings": False, **config})
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    weights["lm_head.weight"] = torch.cat([embedding, embedding])[:rows].contiguous()
    save_file(weights, folder / "model.safetensors")
    verdict = CONFIG(checkpoint=scanned(folder))
    assert verdict.status is status, verdict.summary
    assert ("together" in (verdict.fix or "")) == (status is Status.FAIL)


@pytest.mark.parametrize(
    ("name", "shape", "fails"),
    [
        ("base_model.model.lm_head.weight", (0,), True),
        ("base_model.model.l.lora_B.weight", (0,), True),
        ("base_model.model.l.bias", (4,), False),
        ("base_model.model.l.table", (0, 4), False),
        ("base_model.model.lm_head.weight", (4, 4), False),
    ],
)
def test_tensors_of_an_adapter_without_values(
    tmp_path: Path, name: str, shape: tuple[int, ...], fails: bool
) -> None:
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["l"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    factors = {f"base_model.model.l.lora_{side}.weight": torch.ones(2, 2) for side in "AB"}
    save_file({**factors, name: torch.ones(shape)}, tmp_path / "adapter_model.safetensors")
    verdict = ADAPTER(checkpoint=scanned(tmp_path))
    assert (verdict.status is Status.FAIL) is fails, verdict.summary
    assert ("gathered" in (verdict.fix or "")) is fails

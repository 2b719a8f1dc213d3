"""CKP012: names, biases, scales and sizes that the model of config.json needs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from healthy_folders import make, saved_transformer
from judges import judge

from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.scan import scan
from doctor.judge.check import Status, Verdict

torch = pytest.importorskip("torch")
load_file = pytest.importorskip("safetensors.torch").load_file
save_file = pytest.importorskip("safetensors.torch").save_file

pytestmark = pytest.mark.filterwarnings("ignore")

State = dict[str, Any]
Change = Callable[[State], State]


def verdict(path: Path) -> Verdict:
    found = scan(str(path))
    assert isinstance(found, Checkpoint), found
    return judge("CKP012")(checkpoint=found)


def model(path: Path, kind: str = "llama", change: Change | None = None, **config: Any) -> Path:
    make(path, lambda folder: saved_transformer(folder, kind))
    if change:
        state = change(load_file(path / "model.safetensors"))
        save_file(state, path / "model.safetensors", {"format": "pt"})
    settings = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**settings, **config}))
    return path


def renamed(pattern: str, to: str) -> Change:
    return lambda state: {re.sub(pattern, to, name): each for name, each in state.items()}


def without(pattern: str) -> Change:
    return lambda state: {n: each for n, each in state.items() if not re.search(pattern, n)}


def with_biases(state: State) -> State:
    names = [name for name in state if re.search("self_attn.[qkv]_proj.weight", name)]
    biases = {name.replace("weight", "bias"): torch.ones(len(state[name])) for name in names}
    return {**state, **biases}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (renamed("^", "model."), "every name begins with model."),
        (renamed("^", "module."), "every name begins with module."),
        (
            renamed(r"^.*(layers\.\d)\.mlp\.up_proj\.weight", r"\1._flat_param"),
            "FSDP's _flat_param",
        ),
        (renamed(r"(layers\.\d\.)", r"\1_orig_mod."), "_orig_mod. in them"),
        (renamed(r"(layers\.\d\.)", r"\1_checkpoint_wrapped_module."), "_checkpoint_wrapped"),
        (renamed(r"q_proj\.weight", "q_proj.base_layer.weight"), "base_layer. in them"),
        (without("^model.norm"), "the norm behind the last layer"),
        (without("embed_tokens"), "model.embed_tokens.weight"),
        (without("layers.1.input_layernorm"), "model.layers.1.input_layernorm.weight"),
    ],
)
def test_names_that_loading_does_not_find(tmp_path: Path, change: Change, words: str) -> None:
    found = verdict(model(tmp_path / "m", change=change))
    assert found.status is Status.FAIL, found.summary
    assert words in found.summary
    assert verdict(model(tmp_path / "sound")).status is Status.PASS


def test_biases_and_norms_of_families(tmp_path: Path) -> None:
    for kind, change, status in (
        ("qwen2", None, Status.FAIL),
        ("qwen2", with_biases, Status.PASS),
        ("qwen3", None, Status.FAIL),
        ("mistral", None, Status.PASS),
        ("mistral", with_biases, Status.WARN),
        ("llama", with_biases, Status.WARN),
    ):
        folder = model(tmp_path / f"{kind} {change is None}", change=change, model_type=kind)
        assert verdict(folder).status is status, kind
    wanted = model(tmp_path / "wanted", change=with_biases, attention_bias=True)
    assert verdict(wanted).status is Status.PASS
    assert verdict(model(tmp_path / "lost", attention_bias=True)).status is Status.FAIL


def test_a_layer_that_lacks_a_matrix(tmp_path: Path) -> None:
    def deeper(state: State) -> State:
        third = {
            name.replace("layers.1.", "layers.2."): each.clone()
            for name, each in state.items()
            if "layers.1." in name
        }
        return {**state, **third}

    assert verdict(model(tmp_path / "sound", change=deeper, num_hidden_layers=3)).status is (
        Status.PASS
    )
    for number in range(3):
        folder = model(tmp_path / str(number), num_hidden_layers=3, change=deeper)
        state = load_file(folder / "model.safetensors")
        del state[f"model.layers.{number}.mlp.down_proj.weight"]
        save_file(state, folder / "model.safetensors", {"format": "pt"})
        assert f"model.layers.{number}.mlp.down_proj.weight" in verdict(folder).summary


def test_generation_config_without_config(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    (folder / "config.json").unlink()
    (folder / "generation_config.json").unlink(missing_ok=True)
    assert verdict(folder).status is Status.SKIP
    (folder / "generation_config.json").write_text("{}")
    assert verdict(folder).status is Status.WARN


FP8 = {"quant_method": "fp8", "weight_block_size": [16, 16]}


def fp8(state: State, scaled: str = "proj", block: int = 16) -> State:
    result = {}
    for name, each in state.items():
        if "_proj" in name:
            result[name] = each.to(torch.float8_e4m3fn)
            if scaled in name:
                shape = [-(-length // block) for length in each.shape]
                result[f"{name}_scale_inv"] = torch.ones(shape)
        else:
            result[name] = each
    return result


@pytest.mark.parametrize(
    ("change", "declared", "status", "words"),
    [
        (fp8, FP8, Status.PASS, ""),
        (fp8, None, Status.FAIL, "no quantization_config"),
        (None, FP8, Status.FAIL, "quantized by fp8, and none is"),
        (lambda state: fp8(state, "none"), FP8, Status.FAIL, "have no scales"),
        (lambda state: fp8(state, "none"), None, Status.PASS, ""),  # a plain cast
        (lambda state: fp8(state, "q_proj"), FP8, Status.FAIL, "have no scales"),
        (lambda state: fp8(state, block=8), FP8, Status.FAIL, "blocks with a scale"),
        (None, {"quant_method": "torchao"}, Status.PASS, ""),
    ],
)
def test_scales_of_quantized_weights(
    tmp_path: Path, change: Change | None, declared: dict[str, Any] | None, status: Status,
    words: str,
) -> None:  # fmt: skip
    config = {"quantization_config": declared} if declared else {}
    found = verdict(model(tmp_path / "m", change=change, **config))
    assert found.status is status, found.summary
    assert words in found.summary


def gptq(state: State) -> State:
    result = {}
    for name, each in state.items():
        if "_proj" not in name:
            result[name] = each
            continue
        owner, (outputs, inputs) = name.removesuffix(".weight"), each.shape
        for part, shape, dtype in (
            ("qweight", (inputs // 8, outputs), torch.int32),
            ("qzeros", (-(-inputs // 16), outputs // 8), torch.int32),
            ("scales", (-(-inputs // 16), outputs), torch.float16),
        ):
            result[f"{owner}.{part}"] = torch.ones(shape, dtype=dtype)
    return result


@pytest.mark.parametrize(
    ("bits", "group", "words"), [(4, 16, ""), (8, 16, "bits: 4"), (4, 32, "group size: 12")]
)
def test_bits_and_groups(tmp_path: Path, bits: int, group: int, words: str) -> None:
    declared = {"quant_method": "gptq", "bits": bits, "group_size": group}
    found = verdict(model(tmp_path / "m", change=gptq, quantization_config=declared))
    assert found.status is (Status.FAIL if words else Status.PASS), found.summary
    assert words in found.summary
    plain = model(tmp_path / "plain", change=gptq)
    assert verdict(plain).status is Status.FAIL
    (plain / "quantize_config.json").write_text("{}")
    assert verdict(plain).status is not Status.FAIL


@pytest.mark.parametrize(
    ("kind", "config", "words"),
    [
        ("vit", {"image_size": 48}, "positions of patches"),
        ("vit", {"patch_size": 4}, "patch size"),
        ("vit", {"num_channels": 1}, "image channels"),
        ("bert", {"type_vocab_size": 1}, "token types"),
        ("bert", {"intermediate_size": 4096}, "intermediate size"),
    ],
)
def test_sizes_of_single_tensors(
    tmp_path: Path, kind: str, config: dict[str, Any], words: str
) -> None:
    assert verdict(model(tmp_path / "sound", kind)).status in (Status.PASS, Status.WARN)
    found = verdict(model(tmp_path / "m", kind, **config))
    assert found.status is Status.FAIL
    assert words in found.summary
    own = model(tmp_path / "own", kind, auto_map={"AutoModel": "modeling_own.Own"}, **config)
    assert words not in verdict(own).summary


@pytest.mark.parametrize(
    ("lead", "head", "noted"),
    [("_orig_mod.", "_orig_mod.head.w", True), ("_orig_mod.", "head.w", True),
     ("net._orig_mod.", "net._orig_mod.head.w", True), ("module.", "module.head.w", True),
     ("net.module.", "net.module.head.w", False)],
)  # fmt: skip
def test_all_names_of_a_compiled_model(lead: str, head: str, noted: bool, tmp_path: Path) -> None:
    """Programs of one's own take the lead off again: a note, no warning."""
    path = tmp_path / "net.pt"
    torch.save({f"{lead}fc.w": torch.ones(2, 2), head: torch.ones(2, 2)}, path)
    found = verdict(path)
    assert (found.status is Status.NOTE) is noted
    assert ("model._orig_mod of torch.compile" in (found.fix or "")) is noted


@pytest.mark.parametrize(
    ("names", "warned"),
    [
        (["fc1.w", "fc2.w", "module.fc3.w", "module.fc4.w", "module.head.b"], True),
        (["_orig_mod.fc1.w", "_orig_mod.fc2.w", "fc3.w", "fc4.w"], True),
        (["fc1.w", "module.fc2.w"], False),
        (["down1.w", "down2.w", "module.down3.w"], False),
        (["module.block1.weight", "module.block2.weight"], False),
        (["n_averaged", "module.block1.weight", "module.block2.weight"], False),
        # a module of one's own that is called so, beside others
        (["module.block1.weight", "module.block2.weight", "head.weight"], False),
        (["module.block1.weight", "module.block2.weight", "block1.weight"], False),
        (["module.block0.weight", "module.block1.weight", "block1.bias", "block3.weight"], False),
    ],
)
def test_a_wrapper_before_some_of_the_names(names: list[str], warned: bool, tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.save({name: torch.ones(2, 2) for name in names}, path)
    found = verdict(path)
    assert (found.status is Status.WARN) is warned
    assert ("removeprefix" in (found.fix or "")) is (warned or found.status is Status.NOTE)

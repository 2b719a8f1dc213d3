"""Two checkpoints of the same values, in other files, dtypes, names and orders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch  # noqa: TID253
from recorded_checkpoints import checkpoint
from safetensors.torch import save_file  # noqa: TID253

from doctor._util.records import Unknown
from doctor.checkpoint.contents import ScanRequest, read
from doctor.checkpoint.io.stages import no_stage
from doctor.checkpoint.records import Checkpoint, Equality
from doctor.checks.checkpoint.equal import EQUALS
from doctor.judge.check import Status, Verdict

State = dict[str, torch.Tensor]
WIDTH, HEADS = 32, 4


def state() -> State:
    torch.manual_seed(0)
    weights = {
        "model.embed_tokens.weight": torch.randn(40, WIDTH),
        "model.norm.weight": torch.ones(WIDTH) + torch.randn(WIDTH) / 10,
        "lm_head.weight": torch.randn(40, WIDTH),
    }
    for layer in range(2):
        under = f"model.layers.{layer}."
        for part in ("q", "k", "v", "o"):
            weights[f"{under}self_attn.{part}_proj.weight"] = torch.randn(WIDTH, WIDTH)
        for part in ("gate", "up"):
            weights[f"{under}mlp.{part}_proj.weight"] = torch.randn(64, WIDTH)
        weights[f"{under}mlp.down_proj.weight"] = torch.randn(WIDTH, 64)
        weights[f"{under}input_layernorm.weight"] = torch.rand(WIDTH)
    return {name: tensor.bfloat16() for name, tensor in weights.items()}


def put(path: Path, weights: State) -> Path:
    path.mkdir()
    save_file(
        {name: each.contiguous() for name, each in weights.items()}, path / "model.safetensors"
    )
    return path


def equality(one: Path, other: Path) -> Equality | Unknown | None:
    request = ScanRequest(path=str(one), equals=str(other))
    result = read(request, no_stage, lambda note: None)
    assert isinstance(result, Checkpoint)
    return result.equality


def judged(one: Path, other: Path) -> Verdict:
    return EQUALS.judge(checkpoint=checkpoint(equality=equality(one, other)))


def fused(weights: State) -> None:
    for layer in range(2):
        under = f"model.layers.{layer}."
        for whole, parts in (("self_attn.qkv", "qkv"), ("mlp.gate_up", ("gate", "up"))):
            owner = whole.partition(".")[0]
            names = [f"{under}{owner}.{part}_proj.weight" for part in parts]
            weights[f"{under}{whole}_proj.weight"] = torch.cat([weights.pop(n) for n in names])


def padded(weights: State) -> None:
    embedding = weights["model.embed_tokens.weight"]
    weights["model.embed_tokens.weight"] = torch.cat([embedding, torch.zeros_like(embedding[:8])])


def rotated(weights: State) -> None:
    for layer in range(2):
        for part in ("q", "k"):
            name = f"model.layers.{layer}.self_attn.{part}_proj.weight"
            heads = weights[name].reshape(HEADS, 2, WIDTH // HEADS // 2, WIDTH)
            weights[name] = heads.swapaxes(1, 2).reshape(WIDTH, WIDTH)


def centred(weights: State) -> None:
    for name in weights:
        if "norm" in name:
            weights[name] = weights[name].float() + 1


def meta_names(weights: State) -> None:
    for layer in range(2):
        old, new = f"model.layers.{layer}.", f"layers.{layer}."
        for name, other in (("q", "wq"), ("k", "wk"), ("v", "wv"), ("o", "wo")):
            weights[f"{new}attention.{other}.weight"] = weights.pop(
                f"{old}self_attn.{name}_proj.weight"
            )


def meta_rotated(weights: State) -> None:
    rotated(weights)
    meta_names(weights)


def meta_rotated_keys_wrong(weights: State) -> None:
    """As a converter does that takes the number of queries' heads for the keys."""
    meta_rotated(weights)
    for layer in range(2):
        name = f"layers.{layer}.attention.wk.weight"
        original = state()[f"model.layers.{layer}.self_attn.k_proj.weight"]
        weights[name] = original.reshape(8, 2, 2, WIDTH).swapaxes(1, 2).reshape(WIDTH, WIDTH)


def reversed_rows(weights: State) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    weights[name] = weights[name].flip(0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (rotated, "heads of 8 rows"),
        (meta_rotated_keys_wrong, "heads of one size"),
        (reversed_rows, "same rows in another order"),
    ],
)
def test_rows_in_an_order_that_the_names_do_not_explain(
    tmp_path: Path, change: Callable[[State], None], words: str
) -> None:
    changed = state()
    change(changed)
    one, other = put(tmp_path / "one", state()), put(tmp_path / "other", changed)
    for pair in ((one, other), (other, one)):
        verdict = judged(*pair)
        assert verdict.status is Status.FAIL
        assert words in verdict.summary
        assert verdict.fix
        assert "number" in verdict.fix


def test_rows_in_another_order_are_seen_through_a_cast(tmp_path: Path) -> None:
    wide = {name: torch.randn(each.shape) for name, each in state().items()}
    narrow = dict(wide)
    rotated(narrow)
    narrow = {name: each.bfloat16() for name, each in narrow.items()}
    verdict = judged(put(tmp_path / "one", narrow), put(tmp_path / "other", wide))
    assert verdict.status is Status.FAIL
    assert "heads of 8 rows" in verdict.summary


def prefixed(weights: State) -> None:
    for name in list(weights):
        weights[f"module.{name}"] = weights.pop(name)


def transposed(weights: State) -> None:
    name = "model.layers.0.mlp.down_proj.weight"
    weights[name] = weights[name].T


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (fused, "split or fused"),
        (padded, "padded vocabulary"),
        (meta_rotated, "permuted rotary"),
        (transposed, "transposed"),
        (lambda weights: weights.update({n: w.float() for n, w in weights.items()}), "cast of"),
    ],
)
def test_declared_conversions_are_notes(
    tmp_path: Path, change: Callable[[State], None], words: str
) -> None:
    converted = state()
    change(converted)
    one, other = put(tmp_path / "one", state()), put(tmp_path / "other", converted)
    for pair in ((one, other), (other, one)):
        verdict = judged(*pair)
        assert verdict.status is Status.NOTE, verdict.summary
        assert words in verdict.summary


@pytest.mark.parametrize("change", [meta_names, prefixed])
def test_other_names_are_equal(tmp_path: Path, change: Callable[[State], None]) -> None:
    renamed = state()
    change(renamed)
    verdict = judged(put(tmp_path / "one", state()), put(tmp_path / "other", renamed))
    assert verdict.status is Status.PASS


GEMMA = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
GLM4 = {
    "input_layernorm": "attn_norm",
    "post_self_attn_layernorm": "post_attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "post_mlp_layernorm": "post_ffw_norm",
    "mlp.gate_up_proj": "ffn_up",
}
LLAMA = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.up_proj": "ffn_up",
    "self_attn.q_proj": "attn_q",
}
PHI3 = {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
GPT2 = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up"}


@pytest.mark.parametrize("names", [GEMMA, GLM4, LLAMA, PHI3, GPT2])
def test_names_of_llama_cpp_mean_other_modules_in_other_families(
    tmp_path: Path, names: dict[str, str]
) -> None:
    lead = "transformer.h" if names is GPT2 else "model.layers"
    outer = ("transformer.wte", "transformer.ln_f") if names is GPT2 else ("model.embed_tokens",)
    library, converted = {}, {}
    for layer in range(2):
        for name, other in names.items():
            weight = torch.randn(WIDTH, WIDTH)
            library[f"{lead}.{layer}.{name}.weight"] = weight
            converted[f"blk.{layer}.{other}.weight"] = weight
    for name, other in zip(outer, ("token_embd", "output_norm"), strict=False):
        library[f"{name}.weight"] = converted[f"{other}.weight"] = torch.randn(WIDTH, WIDTH)
    one, other_path = put(tmp_path / "one", library), put(tmp_path / "other", converted)
    for pair in ((one, other_path), (other_path, one)):
        verdict = judged(*pair)
        assert verdict.status is Status.PASS, verdict.summary


@pytest.mark.parametrize(
    ("owner", "parts"),
    [
        ("mlp.experts", ("gate_proj", "up_proj", "down_proj")),
        ("block_sparse_moe.experts", ("w1", "w3", "w2")),
    ],
)
def test_experts_of_llama_cpp(tmp_path: Path, owner: str, parts: tuple[str, ...]) -> None:
    library, converted = {}, {}
    for part, other in zip(parts, ("gate", "up", "down"), strict=True):
        experts = torch.randn(4, 8, WIDTH)
        converted[f"blk.0.ffn_{other}_exps.weight"] = experts
        for number, expert in enumerate(experts):
            library[f"model.layers.0.{owner}.{number}.{part}.weight"] = expert.clone()
    router = owner.replace("experts", "gate")
    library[f"model.layers.0.{router}.weight"] = torch.randn(4, WIDTH)
    converted["blk.0.ffn_gate_inp.weight"] = library[f"model.layers.0.{router}.weight"]
    verdict = judged(put(tmp_path / "one", library), put(tmp_path / "other", converted))
    assert verdict.status is Status.NOTE, verdict.summary
    assert "split or fused" in verdict.summary


@pytest.mark.filterwarnings("ignore")
def test_other_formats_are_equal(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    one = put(tmp_path / "one", state())
    torch.save(state(), tmp_path / "model.pt")
    dcp.save({"model": state()}, checkpoint_id=str(tmp_path / "dcp"))
    assert judged(one, tmp_path / "model.pt").status is Status.PASS
    assert judged(one, tmp_path / "dcp").status is Status.PASS


def test_one_changed_element_is_named(tmp_path: Path) -> None:
    changed = state()
    changed["model.layers.1.mlp.down_proj.weight"][3, 5] += 1
    verdict = judged(put(tmp_path / "one", state()), put(tmp_path / "other", changed))
    assert verdict.status is Status.FAIL
    assert "layers.1.mlp.down_proj" in verdict.summary
    assert "1 of 2,048 elements" in verdict.summary


def test_another_step_differs_everywhere(tmp_path: Path) -> None:
    later = {name: tensor * 1.02 for name, tensor in state().items()}
    verdict = judged(put(tmp_path / "one", state()), put(tmp_path / "other", later))
    assert verdict.status is Status.FAIL
    assert "another step" in verdict.summary


def test_a_detour_through_half_precision_is_named(tmp_path: Path) -> None:
    wide = {name: torch.randn(tensor.shape) for name, tensor in state().items()}
    narrow = {name: tensor.bfloat16().float() for name, tensor in wide.items()}
    verdict = judged(put(tmp_path / "one", wide), put(tmp_path / "other", narrow))
    assert verdict.status is Status.FAIL
    assert "rounded to BF16" in verdict.summary


def test_missing_tensors_fail_further_ones_warn_and_a_tied_head_is_none(tmp_path: Path) -> None:
    fewer, separate, tied = state(), state(), state()
    del fewer["model.layers.1.mlp.down_proj.weight"]
    tied["lm_head.weight"] = tied["model.embed_tokens.weight"].clone()
    one, without = put(tmp_path / "one", state()), put(tmp_path / "fewer", fewer)
    assert judged(one, without).status is Status.WARN
    assert "model.layers.1.mlp.down_proj.weight" in judged(without, one).summary
    assert judged(without, one).status is Status.FAIL
    whole = put(tmp_path / "tied", tied)
    del separate["lm_head.weight"]
    headless = put(tmp_path / "headless", separate)
    assert judged(whole, headless).status is Status.NOTE
    assert judged(headless, one).status is Status.FAIL
    assert "not the embedding" in judged(headless, one).summary


def every(part: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[State], None]:
    def apply(weights: State) -> None:
        for name in weights:
            if part in name:
                weights[name] = change(weights[name].float()).bfloat16()

    return apply


def low_rank(weights: State) -> None:
    update = torch.randn(64, 2) @ torch.randn(2, WIDTH)
    for name in weights:
        if "gate_proj" in name:
            weights[name] = (weights[name].float() + update).bfloat16()


def coarse(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.float8_e4m3fn).float()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (centred, "1 was added"),
        (every("o_proj", lambda values: values.T), "all of them square"),
        (every("embed", lambda values: values * 8), "8 times the values"),
        (every("k_proj", lambda values: -values), "-1 times the values"),
        (every("up_proj", torch.zeros_like), "zeros"),
        (every("_proj", coarse), "rounded to fp8"),
        (every("embed", lambda values: values.roll(1, 0)), "as of tokens"),
        (every("layers.1.", torch.randn_like), "all in layer 1"),
        (low_rank, "rank 2 or less"),
    ],
)
def test_what_a_wrong_conversion_did(
    tmp_path: Path, change: Callable[[State], None], words: str
) -> None:
    converted = state()
    change(converted)
    verdict = judged(put(tmp_path / "one", converted), put(tmp_path / "other", state()))
    assert verdict.status is Status.FAIL, verdict.summary
    assert words in verdict.summary


def test_a_shard_of_another_step(tmp_path: Path) -> None:
    weights = state()
    first = {name: each for name, each in weights.items() if "layers.0." in name}
    rest = {name: each for name, each in weights.items() if name not in first}
    for folder, factor in (("one", 1.05), ("other", 1.0)):
        (tmp_path / folder).mkdir()
        noisy = {
            name: (each.float() + (factor - 1) * torch.randn(each.shape)).bfloat16()
            for name, each in first.items()
        }
        save_file(noisy, tmp_path / folder / "model-00001-of-00002.safetensors")
        save_file(rest, tmp_path / folder / "model-00002-of-00002.safetensors")
    verdict = judged(tmp_path / "one", tmp_path / "other")
    assert verdict.status is Status.FAIL
    assert "all that model-00001-of-00002.safetensors holds" in verdict.summary


def test_nothing_in_common(tmp_path: Path) -> None:
    one = put(tmp_path / "one", state())
    other = put(tmp_path / "other", {"a.b": torch.ones(3, 3)})
    assert judged(one, other).status is Status.FAIL
    assert isinstance(equality(one, tmp_path / "absent"), Unknown)


def test_without_the_flag() -> None:
    assert EQUALS.judge(checkpoint=checkpoint()).status is Status.SKIP


@pytest.mark.parametrize("pair", [("0.mlp.gate", "0.mlp.up"), ("0.mlp.down", "1.mlp.down")])
def test_exchanged_tensors_are_named(tmp_path: Path, pair: tuple[str, str]) -> None:
    weights = state()
    first, second = (f"model.layers.{each}_proj.weight" for each in pair)
    exchanged = {**weights, first: weights[second], second: weights[first]}
    verdict = judged(put(tmp_path / "one", exchanged), put(tmp_path / "other", weights))
    assert verdict.status is Status.FAIL
    assert f"{first} has those of {second}" in verdict.summary

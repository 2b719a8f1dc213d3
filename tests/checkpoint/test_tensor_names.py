"""Names of tensors, and the history of a run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.checkpoint.analysis.tensor_names import is_norm, numbered_norms, part_of, role
from doctor.checkpoint.layouts.trainer_state import read_history
from doctor.checkpoint.records import History
from doctor.checkpoint.tensors import Tensor


def test_roles_and_norms() -> None:
    assert (
        role("model.layers.12.mlp.experts.7.up.weight") == "model.layers.*.mlp.experts.*.up.weight"
    )
    assert role("0.layer_norm1.weight") == "*.layer_norm1.weight"

    def norm(name: str, shape: tuple[int, ...] = (8,), dtype: str = "BF16") -> bool:
        return is_norm(Tensor(name, dtype, shape, 8, "f", 0, 16))

    for name in (
        "model.layers.0.input_layernorm.weight",
        "transformer.h.0.ln_1.weight",
        "encoder.layer.0.output.LayerNorm.weight",
        "bert.LayerNorm.gamma",
        "vision.pre_layrnorm.weight",
        "layers.0.sa_norm.scale",
        "decoder.linear_qkv.layer_norm_weight",
        "self_attn.q_norm.weight",
        "norms.0.weight",
        "bn1.weight",
        "layer.rms.weight",
        "attn_ln.weight",
        "norm.weight",
    ):
        assert norm(name), name
    for name in (
        "input_layernorm.bias",
        "bn1.running_var",
        "self_attn.k_proj.k_scale",
        "norm.weight_scale",
        "q_proj.weight",
        "norm.num_batches_tracked",
        "A_log",
        "alnilam.weight",
    ):
        assert not norm(name), name
    assert not norm("norm.weight", (8, 8))
    assert not norm("norm.weight", dtype="I64")


def lr(step: Any, rate: Any) -> dict[str, Any]:
    return {"step": step, "learning_rate": rate, "loss": 1.0}


def test_history_sums_the_logged_rates() -> None:
    state = {
        "global_step": 30,
        "logging_steps": 10,
        "log_history": [lr(10, 1e-3), {"step": 10, "eval_loss": 2.0}, lr(20, 2e-3), lr(30, 0.0)],
    }
    found = read_history(state)
    assert found is not None
    assert (found.steps, found.covered, found.lr_max) == (30, 30, 2e-3)
    assert found.lr_sum == pytest.approx(0.03)
    assert found.lr_squares == pytest.approx(10 * 1e-6 + 10 * 4e-6)


def test_a_log_that_was_cut_covers_only_what_is_left() -> None:
    state = {
        "global_step": 1000,
        "logging_steps": 10,
        "log_history": [lr(990, 1e-3), lr(1000, 1e-3)],
    }
    found = read_history(state)
    assert found is not None
    assert found.covered == 20
    del state["logging_steps"]
    assert read_history(state) == found


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"global_step": "7"},
        {"global_step": True},
        {"global_step": -1},
        {"log_history": {"a": 1}},
        {"log_history": [lr("x", 1), lr(1, "x"), lr(True, 1e-3), lr(1, float("nan")), 3, None]},
    ],
)
def test_a_history_of_wrong_types_is_none(state: dict[str, Any]) -> None:
    assert read_history(state) is None


def test_a_history_without_rates_covers_nothing() -> None:
    state = {"global_step": 5, "log_history": [lr(3, float("inf")), lr(10**30, 1.0), lr(4, True)]}
    assert read_history(state) == History(steps=5, lr_sum=0.0, lr_squares=0.0, covered=0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["step", "learning_rate", "log_history", "global_step", "x"]), inner
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["log_history", "global_step", "logging_steps"]), json_values)
)
def test_any_history_reads(state: dict[str, Any]) -> None:
    found = read_history(state)
    assert found is None or found.covered >= 0


PARTS = """
    norm model.layers.0.input_layernorm.weight
    embedding model.embed_tokens.weight
    attention model.layers.3.self_attn.q_proj.weight
    MLP model.layers.3.mlp.gate_proj.weight
    head lm_head.weight
    embedding transformer.wte.weight
    embedding transformer.wpe.weight
    attention transformer.h.0.attn.c_attn.weight
    attention transformer.h.0.attn.bias
    MLP transformer.h.0.mlp.c_fc.weight
    norm transformer.h.0.ln_1.bias
    norm transformer.ln_f.weight
    embedding transformer.word_embeddings.weight
    attention transformer.h.0.self_attention.query_key_value.weight
    MLP transformer.h.0.mlp.dense_h_to_4h.weight
    norm transformer.h.0.ln_attn.weight
    embedding shared.weight
    attention encoder.block.0.layer.0.SelfAttention.q.weight
    attention encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight
    MLP encoder.block.0.layer.1.DenseReluDense.wi_0.weight
    norm encoder.block.0.layer.0.layer_norm.weight
    attention decoder.block.0.layer.1.EncDecAttention.k.weight
    embedding bert.embeddings.word_embeddings.weight
    norm bert.embeddings.LayerNorm.weight
    attention bert.encoder.layer.0.attention.self.query.weight
    attention bert.encoder.layer.0.attention.output.dense.bias
    norm bert.encoder.layer.0.attention.output.LayerNorm.bias
    MLP bert.encoder.layer.0.intermediate.dense.weight
    MLP bert.encoder.layer.0.output.dense.weight
    head bert.pooler.dense.weight
    head cls.predictions.transform.dense.weight
    head cls.predictions.bias
    head classifier.weight
    embedding vit.embeddings.cls_token
    embedding vit.embeddings.position_embeddings
    embedding vit.embeddings.patch_embeddings.projection.weight
    attention vit.encoder.layer.0.attention.attention.query.weight
    norm vit.encoder.layer.0.layernorm_before.weight
    embedding cls_token
    embedding pos_embed
    embedding patch_embed.proj.weight
    attention blocks.0.attn.qkv.weight
    MLP blocks.0.mlp.fc1.weight
    head head.weight
    MLP model.layers.0.block_sparse_moe.gate.weight
    MLP model.layers.0.block_sparse_moe.experts.7.w1.weight
    MLP model.layers.3.mlp.experts.0.gate_proj.weight
    MLP model.layers.3.mlp.shared_experts.down_proj.weight
    MLP model.layers.3.mlp.gate.e_score_correction_bias
    attention model.layers.0.self_attn.kv_a_proj_with_mqa.weight
    norm model.layers.0.self_attn.kv_a_layernorm.weight
    embedding backbone.embeddings.weight
    other backbone.layers.0.mixer.A_log
    other backbone.layers.0.mixer.D
    other backbone.layers.0.mixer.conv1d.weight
    other backbone.layers.0.mixer.in_proj.weight
    norm backbone.norm_f.weight
    embedding language_model.embedding.word_embeddings.weight
    attention decoder.layers.0.self_attention.linear_qkv.weight
    norm decoder.layers.0.self_attention.linear_qkv.layer_norm_weight
    MLP decoder.layers.0.mlp.linear_fc1.weight
    head output_layer.weight
    norm language_model.encoder.final_layernorm.weight
    embedding token_embd.weight
    attention blk.0.attn_output.weight
    norm blk.0.attn_norm.weight
    MLP blk.0.ffn_gate_inp.weight
    norm output_norm.weight
    head output.weight
    other blk.0.ssm_a
    MLP model.decoder.layers.0.fc1.weight
    embedding tok_embeddings.weight
    attention layers.0.attention.wq.weight
    MLP layers.0.feed_forward.w1.weight
    embedding gpt_neox.embed_in.weight
    head embed_out.weight
    attention base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight
    other model.rotary_emb.inv_freq
    norm bn1.running_mean
    head fc.weight
    other layer1.0.conv1.weight
    other x
"""
"""Names of Llama, GPT-2, Falcon, T5, BERT, ViT, Mixtral, DeepSeek, Mamba, Megatron, nanoGPT, GGUF,
OPT, torchtitan, GPT-NeoX, PEFT and ResNet."""


@pytest.mark.parametrize("line", PARTS.split("\n")[1:-1])
def test_the_part_of_a_model_by_the_name(line: str) -> None:
    kind, name = line.split()
    vector = kind == "norm" or name.endswith(("bias", ".D", "ssm_a"))
    shape = (4,) if vector else (4, 4)
    assert part_of(Tensor(name, "F32", shape, 16, "f", 0, 64)) == kind


def test_the_part_of_a_name_without_end_is_known_at_once() -> None:
    for name in ("a." * 500_000, "attn_" * 200_000, "\n" * 1000, ""):
        part_of(Tensor(name, "F32", (4,), 4, "f", 0, 16))


def test_norms_with_numbers_for_names() -> None:
    """In nn.Sequential: a vector with a bias of its shape, or with running statistics."""
    import torch

    def made(*modules: torch.nn.Module) -> list[Tensor]:
        state = torch.nn.Sequential(*modules).state_dict()
        return [
            Tensor(name, "F32", tuple(value.shape), value.numel(), "m", 0, 4 * value.numel())
            for name, value in state.items()
        ]

    nn = torch.nn
    layers = made(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.PReLU(8), nn.Linear(8, 8))
    assert numbered_norms(layers) == {"1.weight"}
    assert numbered_norms(made(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)))) == {"0.0.weight"}
    assert numbered_norms(made(nn.GroupNorm(2, 8), nn.Linear(8, 1))) == {"0.weight"}

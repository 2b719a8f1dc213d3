"""Names of tensors, and the history of a run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.checkpoint.history import read_history
from doctor.checkpoint.names import is_norm, role
from doctor.checkpoint.tensors import Tensor
from doctor.sections import History


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

"""Masks that show the padding alone, weights too large for their layer, heads that stay fresh."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from doctor.probes.training_side.calls import attention_calls  # noqa: E402
from doctor.probes.training_side.subject import initial_weights  # noqa: E402

pytestmark = pytest.mark.slow

IDS = torch.tensor([[5, 6, 7, 8, 0, 0], [9, 10, 11, 0, 0, 0]])
KEEP = IDS != 0
NAMES = {"fused": "scaled_dot_product_attention", "module": "multi_head_attention_forward"}


def floats(shown: Any) -> Any:
    return torch.zeros(shown.shape).masked_fill(~shown, float("-inf"))


@pytest.mark.parametrize(
    ("name", "mask", "token"),
    [
        ("module", KEEP, 0),
        ("module", ~KEEP, None),
        ("module", floats(~KEEP), 0),
        ("module", floats(KEEP), None),
        ("fused", ~KEEP[:, None, None], 0),
        ("fused", KEEP[:, None, None], None),
        ("fused", floats(~KEEP[:, None, None].expand(-1, 1, 6, -1)), 0),
        ("fused", torch.ones(6, 6).tril() > 0, None),
        ("fused", None, None),
    ],
)
def test_a_mask_that_shows_the_padding_alone(name: str, mask: Any, token: int | None) -> None:
    argument = "attn_mask" if name == "fused" else "key_padding_mask"
    shown = attention_calls.padding_of(NAMES[name], {argument: mask}, IDS.shape)
    assert attention_calls.only_shown(IDS, shown) == token


def test_a_choice_of_one_token_is_no_padding() -> None:
    """The keys of a special token alone, of few others, and all keys."""
    kinds = torch.tensor([[1, 1, 0, 0]])
    assert attention_calls.only_shown(kinds, kinds == 1) is None
    assert attention_calls.only_shown(IDS, torch.ones_like(KEEP)) is None


@pytest.mark.parametrize(("factor", "named"), [(1.0, False), (3.0, False), (30.0, True)])
@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_weights_that_are_too_large_for_their_layer(kind: str, factor: float, named: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 64) if kind == "linear" else torch.nn.Conv2d(8, 16, 3)
    with torch.no_grad():
        layer.weight *= factor
    module = torch.nn.Sequential(torch.nn.Embedding(64, 64), layer)
    assert bool(initial_weights.large(module)) is named


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("program", ["forgotten", "task type", "saved", "trained before", "tokens"])
def test_a_head_that_adapters_leave_fresh(program: str) -> None:
    transformers, peft = pytest.importorskip("transformers"), pytest.importorskip("peft")
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    config = transformers.LlamaConfig(
        vocab_size=64, num_attention_heads=2, num_key_value_heads=2, num_labels=5, **sizes
    )
    causal = program == "tokens"
    kind = "LlamaForCausalLM" if causal else "LlamaForSequenceClassification"
    torch.manual_seed(0)
    base = getattr(transformers, kind)(config)
    if program == "trained before":
        with torch.no_grad():
            base.score.weight *= 3
    assert initial_weights.fresh_heads(base) == []
    fields: dict[str, Any] = {"r": 2, "target_modules": ["q_proj"]}
    fields |= {"task type": {"task_type": "SEQ_CLS"}, "saved": {"modules_to_save": ["score"]}}.get(
        program, {}
    )
    adapted = peft.get_peft_model(base, peft.LoraConfig(**fields))
    assert bool(initial_weights.fresh_heads(adapted)) is (program == "forgotten")


def test_norms_tell_trained_weights() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    assert not initial_weights.is_trained(model)
    torch.nn.init.normal_(model[1].weight)
    assert initial_weights.is_trained(model)

"""The trials in a copy of the process: what they name, what they leave, and that they can be left
out."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_code import Own, judged
from own_corpus import functions

from doctor.checks.training import own_model
from doctor.collect.own_training import collect_in
from doctor.collect.torch_child import TorchChild
from doctor.facts.own_model import OwnModel, Trial
from doctor.job.job import Chosen, Job
from doctor.judge.check import Status

pytestmark = pytest.mark.slow
CORPUS = Path(__file__).parents[2] / "corpus" / "own_trials" / "factories.py"
OPERATIONS = {
    "softmax_over_the_batch": "softmax over the samples",
    "lstm_without_batch_first": "LSTM without batch_first",
    "softmax_over_samples_in_the_second_place": "softmax over the samples (dim 1)",
    "encoder_without_batch_first": "MultiheadAttention without batch_first",
    "attention_without_a_causal_mask": "scaled_dot_product_attention without a mask",
    "encoder_layer_without_a_causal_mask": "MultiheadAttention without attn_mask",
    "shifted_without_a_causal_mask": "scaled_dot_product_attention without a mask",
    "shortened_without_a_causal_mask": "scaled_dot_product_attention without a mask",
    "broadcast_by_hand": "sub of [6, 1] and [6]",
    "mask_in_the_wrong_direction": "from a.self_attn (MultiheadAttention) on",
    "heads_merged_in_the_wrong_order": "from a (_Heads) on",
    "convolution_that_sees_the_next_token": "changes with a later one",
    "softmax_of_a_pool_over_the_batch": "softmax over the samples",
    "backward_without_its_gradient": "_Square.backward",
    "identity_without_its_gradient": "_Lost.backward",
    "view_that_exchanges_axes": "view() that exchanges axes",
    "rows_joined_and_viewed_the_other_way": "view() that exchanges axes, [6 * 5] rows as [5, 6]",
    "rows_joined_by_a_view_and_taken_apart_wrongly": "reshape() that exchanges axes, [6 * 5] rows",
    "dropout_in_evaluation": "values are dropped in eval(), too: dropout()",
    "dropout_of_attention_in_evaluation": "too: scaled_dot_product_attention()",
    "dropout_that_is_in_no_module": "too: dropout()",
    "buffer_that_evaluation_moves": "moves buffers that are saved: mean;",
    "values_of_samples_on_another_dimension": "mul of [6] and [6, 3, 6, 6]",
    "positions_by_the_place_in_the_batch": "add of [6, 5, 8] and [6, 1, 8]",
    "broadcast_of_a_distribution": "sub of [6] and [6, 1]",
    "view_of_pictures_with_channels_last": "view(), [4, 6, 9, 3] as [4, 3, 6, 9]",
    "heads_split_by_a_view": "reshape(), [4, 9, 8] as [4, 2, 9, 4]",
    "attention_normalized_over_queries": "softmax over dim -2 of weights [4, 9, 9]",
    "labels_that_are_not_shifted": "labels that are not shifted",
    "decoder_without_a_causal_mask": "MultiheadAttention without attn_mask",
    "forecast_that_sees_what_follows": "from a (GRU) on",
    "forecast_normalized_by_its_future": "with the last of the values that they are compared with",
    "decoder_that_gets_its_labels": "with the last of the values that they are compared with",
    "neighbors_with_the_offset_of_samples": "rows that reach 2 of the 4 samples",
    "nodes_without_an_offset": "rows that reach 1 of the 4 samples",
    "router_of_one_expert": "rounding errors, which float64 does not have: router.weight",
    "penalty_of_all_weights": "almost all of the loss depends on the weights alone",
    "view_taken_for_patches": "reshape(), [6, 3, 16, 16] as [6, 4, 192]",
    "map_viewed_as_tokens": "view(), [6, 8, 4, 4] as [6, 16, 8]",
    "classes_of_a_map_viewed_as_rows": "view(), [6, 5, 8, 8] as [384, 5]",
    "similarities_with_one_label": "cross_entropy of [6, 6] and [6]",
    "map_cut_into_rows": "reshape(), [6, 8, 6, 6] as [6, 72, 4]",
    "labels_that_are_shifted_twice": "in forward, and once more before cross_entropy",
    "last_batch_for_a_view_with_the_batch_size": "has, 6 samples: RuntimeError: shape '[8, ",
    "last_batch_for_the_state_of_the_one_before": "has, 6 samples: RuntimeError: ",
    "last_batch_of_one_sample_in_a_batch_norm": "has, 1 sample: ValueError: Expected more",
    "encoder_of_fields_without_batch_first": "MultiheadAttention without batch_first",
    "time_major_without_a_causal_mask": "MultiheadAttention without attn_mask",
    "mask_of_the_queries_alone": "masked_fill with a mask [6, 7, 1]",
    "residual_of_a_tensor_and_itself": "adds a tensor to itself",
    "weights_divided_by_their_sum": "rounding errors, which float64 does not have: a.weight",
}
"""A sample of the faults; benchmarks/own_trials.py runs all of them, and all healthy factories."""
HEALTHY = [name for name in functions(CORPUS) if name.startswith("healthy")]


def trained(child: TorchChild, name: str, **fields: bool) -> OwnModel:
    job = Job(device="cpu", model=f"{CORPUS}:{name}", **fields)
    record = collect_in(child, job, "cpu", Chosen("fp32", ""), lambda stage: None)
    assert isinstance(record, OwnModel), record
    return record


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_fault_that_trains_is_named(name: str, warm: TorchChild) -> None:
    verdict = judged(own_model.LOSS_FINITE, trained(warm, name))
    assert verdict.status is Status.WARN
    assert OPERATIONS[name] in verdict.summary


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_like_a_fault_is_silent(name: str, warm: TorchChild) -> None:
    record = trained(warm, name)
    assert not [each.operation for each in record.trials if each.operation]
    assert len(record.trials) == 10


def test_a_part_that_the_loss_does_not_depend_on_is_a_note(own: Own) -> None:
    record = own("""
        class Masked(nn.Linear):
            def forward(self, x, mask, labels):
                return nn.functional.cross_entropy(super().forward(x), labels)
        def make():
            mask = torch.ones(6, 4).tril()
            labels = torch.arange(6) % 3
            return Masked(8, 3), {"x": torch.randn(6, 8), "mask": mask, "labels": labels}
        """)
    verdict = judged(own_model.LOSS_FINITE, record)
    assert verdict.status is Status.PASS
    assert "note: the loss does not depend on mask of the batch" in verdict.summary


def test_trials_are_left_out_on_request(warm: TorchChild) -> None:
    assert trained(warm, "broadcast_by_hand", probes=False).trials == ()


def test_what_a_trial_does_stays_in_its_copy(own_process: Own, tmp_path: Path) -> None:
    record = own_process("""
        import socket
        class Counted(Net):
            def forward(self, x, labels):
                if not self.training:
                    try:
                        socket.create_connection(("127.0.0.1", 9), timeout=1)
                    except OSError as error:
                        open("network", "w").write(str(error))
                    os._exit(3)
                return super().forward(x, labels)
        def make():
            return Counted(), batch()
        """)
    assert judged(own_model.LOSS_FINITE, record).status is Status.PASS
    assert "no network" in (tmp_path / "network").read_text()
    assert [each.reason for each in record.trials if each.name == "samples"] == [
        "the process ended"
    ]


def test_unnamed_mixing_is_a_note(own: Own) -> None:
    record = own("""
        def make():
            class Mixed(nn.Linear):
                def forward(self, x):
                    out = super().forward(x)
                    return out - out.mean(0)
            loss = lambda module, inputs: (module(inputs[0]) ** 2).mean()
            return Mixed(8, 4), (torch.randn(6, 8),), loss
        """)
    (samples,) = (each for each in record.trials if each.name == "samples")
    assert samples == Trial(name="samples", applies=True, found="samples")
    verdict = judged(own_model.LOSS_FINITE, record)
    assert verdict.status is Status.PASS
    assert "note: the output of a sample changes" in verdict.summary

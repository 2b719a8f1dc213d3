"""A sample of the corpus of own models, in one process; benchmarks/own_model_corpus.py runs all."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import patience
import pytest
import shims

from doctor.checks.training import own_gradients, own_model, own_weights
from doctor.collect import changes
from doctor.collect.children import Children
from doctor.collect.own_training import collect_in
from doctor.collect.torch_child import TorchChild
from doctor.facts.own_model import OwnModel
from doctor.job.job import Chosen, Job
from doctor.judge.check import Status, Verdict

CORPUS = Path(__file__).parents[1] / "corpus" / "own_model"
FAULTS: dict[str, dict[str, Any]] = {
    file: labels
    for name in ("faults.toml", "shop.toml", "ward.toml")
    for file, labels in tomllib.loads((CORPUS / name).read_text("utf-8")).items()
}
SAMPLE = (
    "nonfinite:fully_masked_row",
    "nonfinite:kl_of_zeros",
    "nonfinite:where_does_not_protect",
    "errors:inputs_and_labels_without_criterion",
    "quiet:module_never_called",
    "quiet:optimizer_without_norms",
    "mistakes:softmax_twice",
    "mistakes:nll_of_logits",
    "mistakes:targets_broadcast",
    "mistakes:layers_in_a_list",
    "mistakes:sigmoids_all_the_way",
    "mistakes:an_unlucky_seed",
    "reported_gradients:helper_without_grad",
    "reported_weights:gradients_cleared_before_the_step",
    "everyday_training:half_a_cosine",
    "raised_shapes:size_after_the_convolutions_is_guessed",
    "raised_shapes:encoder_takes_samples_for_steps",
    "raised_shapes:padding_mask_without_head_dimensions",
    "raised_shapes:logits_of_tokens_with_classes_last",
    "raised_types:encoder_without_a_return",
    "raised_types:layer_of_another_name",
    "raised_types:label_without_its_plural",
    "raised_types:key_that_forward_does_not_know",
    "raised_types:criterion_is_not_created",
    "raised_graph:columns_are_normalized_in_place",
    "raised_graph:predictions_as_the_output",
    "raised_graph:decorated_with_no_grad",
    "raised_graph:hook_that_flattens",
    "raised_graph:copy_of_a_model_with_a_result",
    "raised_data:one_field_of_other_lengths",
    "raised_data:field_that_some_samples_lack",
    "raised_data:length_beyond_the_files",
    "raised_setup:head_in_both_groups",
    "raised_setup:state_of_another_width",
    "raised_setup:momentum_of_another_optimizer",
    "raised_setup:cycle_that_is_too_short",
    "everyday_errors:samples_where_the_layer_has_steps",
    "errors:backward_inside",
    "errors:graph_of_the_last_step",
    "forum_errors:parameters_are_used_up",
    "shop_silent:thumbnails_in_levels",
    "shop_silent:sessions_of_clicks",
    "shop_silent:tags_with_a_new_body",
    "shop_silent:delivery_with_a_new_head",
    "shop_silent:stock_with_a_slow_copy",
    "shop_errors:reviews_of_other_lengths",
    "shop_errors:questions_with_a_mask",
    "shop_errors:shelves_without_products",
    "shop_errors:scores_rounded_down",
    "shop_errors:features_of_a_replaced_layer",
    "ward_errors:state_between_batches",
    "ward_errors:categorical_from_logits",
    "ward_errors:beta_outside",
    "ward_silent:frozen_module_flag",
    "ward_silent:reversal_of_the_gradient",
    "ward_silent:gradients_that_are_taken_away",
)


class OneProcess(TorchChild):
    """Survives the bisection, so that torch is imported once."""

    def end(self) -> None:
        """Nothing: every request of this module leaves the process as it was."""

    def close(self) -> None:
        super().end()


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneProcess]:
    python = shims.python(tmp_path_factory.mktemp("interpreter"), patience.IN_THE_PROBE)
    running = OneProcess(Children(), python)
    yield running
    running.close()


Judge = Callable[..., dict[str, Verdict]]


@pytest.fixture
def judge(child: OneProcess, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """The verdicts of a factory of the corpus."""
    monkeypatch.setattr(changes, "CHANGES", ("fp32", "lower-lr"))

    def verdicts(model: str) -> dict[str, Verdict]:
        job = Job(device="cpu", model=str(CORPUS / model))
        own = collect_in(child, job, "cpu", Chosen("bf16", ""), lambda stage: None)
        assert isinstance(own, OwnModel), own
        return {
            "SMK005": own_model.completes(own, None),
            "SMK006": own_model.loss_finite(own, None),
            "SMK007": own_gradients.gradients_reach_all(own, None, job),
            "SMK008": own_weights.weights_move(own, job),
        }

    return verdicts


@pytest.mark.slow
@pytest.mark.parametrize("fault", SAMPLE)
def test_a_planted_fault_is_named(fault: str, judge: Judge) -> None:
    file, _, name = fault.partition(":")
    label = FAULTS[file][name]
    verdicts = judge(f"{file}.py:{name}")
    bad = [code for code, v in verdicts.items() if v.status in (Status.FAIL, Status.WARN)]
    assert bad == [label["code"]]  # one cause gives one failure
    text = f"{verdicts[label['code']].summary}\n{verdicts[label['code']].fix}"
    assert [each for each in label["names"] if not re.search(each, text, re.IGNORECASE)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["healthy:logits_and_loss", "healthy:a_warm_up_from_zero", "healthy:sparse_embedding",
     "healthy:group_relative", "healthy:lightning_style", "healthy:several_losses",
     "healthy:an_unused_log_of_zero", "healthy_everyday:schedule_that_waits_for_a_plateau",
     "healthy_shop:attention_step_by_step", "healthy_shop:batch_norm_of_three",
     "healthy_shop:shapes_that_a_hook_printed", "healthy_shop:reviews_with_the_length_first",
     "healthy_shop:codebook_with_counts", "healthy_shop:margins_in_the_optimizer",
     "healthy_ward:adafactor_like", "healthy_ward:step_in_the_backward_pass",
     "healthy_ward:hooks_that_scale",
     "healthy_ward:states_that_are_detached", "healthy_ward:flags_that_agree",
     "healthy_shop:critic_with_clipped_weights"],
)  # fmt: skip
def test_a_healthy_training_passes(name: str, judge: Judge) -> None:
    file, _, function = name.partition(":")
    verdicts = judge(f"{file}.py:{function}")
    assert {code: v.summary for code, v in verdicts.items() if v.status is not Status.PASS} == {}


def test_every_fault_of_the_corpus_has_its_label() -> None:
    for file, labels in FAULTS.items():
        tree = ast.parse((CORPUS / f"{file}.py").read_text("utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {name for name in functions if not name.startswith("_")} == set(labels)
        assert all(label["code"] in ("SMK005", "SMK006", "SMK007", "SMK008") and label["names"]
                   for label in labels.values())  # fmt: skip

"""A fixed sample of the corpus of own models, in one process.

benchmarks/own_model_corpus.py runs all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import own_corpus
import patience
import pytest
import shims

from doctor.collect import changes
from doctor.collect.children import Children
from doctor.collect.own_training import collect_in
from doctor.collect.torch_child import TorchChild
from doctor.facts.own_model import OwnModel
from doctor.job.job import Chosen, Job
from doctor.judge.check import Status, Verdict

SAMPLE = (
    "numerics_01:fully_masked_row",
    "numerics_01:kl_of_zeros",
    "numerics_01:where_does_not_protect",
    "errors_01:inputs_and_labels_without_criterion",
    "silent_01:module_never_called",
    "silent_01:optimizer_without_norms",
    "mistakes_02:softmax_twice",
    "mistakes_02:nll_of_logits",
    "mistakes_02:targets_broadcast",
    "mistakes_02:layers_in_a_list",
    "mistakes_02:sigmoids_all_the_way",
    "mistakes_02:an_unlucky_seed",
    "gradients_03:helper_without_grad",
    "weights_03:gradients_cleared_before_the_step",
    "silent_07:half_a_cosine",
    "shapes_08:size_after_the_convolutions_is_guessed",
    "shapes_08:encoder_takes_samples_for_steps",
    "shapes_08:padding_mask_without_head_dimensions",
    "shapes_08:logits_of_tokens_with_classes_last",
    "types_08:encoder_without_a_return",
    "types_08:layer_of_another_name",
    "types_08:label_without_its_plural",
    "types_08:key_that_forward_does_not_know",
    "types_08:criterion_is_not_created",
    "graph_08:columns_are_normalized_in_place",
    "graph_08:predictions_as_the_output",
    "graph_08:decorated_with_no_grad",
    "graph_08:hook_that_flattens",
    "graph_08:copy_of_a_model_with_a_result",
    "data_08:one_field_of_other_lengths",
    "data_08:field_that_some_samples_lack",
    "data_08:length_beyond_the_files",
    "setup_08:head_in_both_groups",
    "setup_08:state_of_another_width",
    "setup_08:momentum_of_another_optimizer",
    "setup_08:cycle_that_is_too_short",
    "errors_07:samples_where_the_layer_has_steps",
    "errors_01:backward_inside",
    "errors_01:graph_of_the_last_step",
    "errors_05:parameters_are_used_up",
    "silent_18:thumbnails_in_levels",
    "silent_18:sessions_of_clicks",
    "silent_18:delivery_with_a_new_head",
    "silent_18:stock_with_a_slow_copy",
    "errors_18:reviews_of_other_lengths",
    "errors_18:questions_with_a_mask",
    "errors_18:shelves_without_products",
    "errors_18:scores_rounded_down",
    "errors_20:state_between_batches",
    "errors_20:categorical_from_logits",
    "errors_20:beta_outside",
    "silent_20:frozen_module_flag",
    "silent_20:reversal_of_the_gradient",
    "silent_20:gradients_that_are_taken_away",
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
        job = Job(device="cpu", model=str(own_corpus.CORPUS / model))
        own = collect_in(child, job, "cpu", Chosen("bf16", ""), lambda stage: None)
        assert isinstance(own, OwnModel), own
        return own_corpus.judge(own, job)

    return verdicts


@pytest.mark.slow
@pytest.mark.parametrize("fault", SAMPLE)
def test_a_planted_fault_is_named(fault: str, judge: Judge) -> None:
    module, _, name = fault.partition(":")
    label = own_corpus.labels()[module][name]
    verdicts = judge(f"{module}.py:{name}")
    bad = [code for code, v in verdicts.items() if v.status in (Status.FAIL, Status.WARN)]
    assert bad == [label["code"]]  # one cause gives one failure
    text = f"{verdicts[label['code']].summary}\n{verdicts[label['code']].fix}"
    assert own_corpus.absent(label, text) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["healthy_01:logits_and_loss", "healthy_01:a_warm_up_from_zero", "healthy_01:sparse_embedding",
     "healthy_01:group_relative", "healthy_01:lightning_style", "healthy_01:several_losses",
     "healthy_01:an_unused_log_of_zero", "healthy_07:schedule_that_waits_for_a_plateau",
     "healthy_18:attention_step_by_step", "healthy_18:batch_norm_of_three",
     "healthy_18:shapes_that_a_hook_printed", "healthy_18:reviews_with_the_length_first",
     "healthy_18:codebook_with_counts", "healthy_18:margins_in_the_optimizer",
     "healthy_20:adafactor_like", "healthy_20:step_in_the_backward_pass",
     "healthy_20:hooks_that_scale",
     "healthy_20:states_that_are_detached", "healthy_20:flags_that_agree",
     "healthy_18:critic_with_clipped_weights"],
)  # fmt: skip
def test_a_healthy_training_passes(name: str, judge: Judge) -> None:
    module, _, function = name.partition(":")
    verdicts = judge(f"{module}.py:{function}")
    assert {code: v.summary for code, v in verdicts.items() if v.status is not Status.PASS} == {}


def test_every_factory_has_a_label_or_is_healthy() -> None:
    labels = own_corpus.labels()
    for module in own_corpus.CORPUS.glob("*.py"):
        if not module.stem.startswith(("healthy", *own_corpus.PARTS)):
            assert set(own_corpus.functions(module)) == set(labels.pop(module.stem))
    assert labels == {}


def test_labels_name_a_check_and_what_it_says() -> None:
    codes = {"SMK005", "SMK006", "SMK007", "SMK008"}
    for factory in own_corpus.factories():
        if label := factory.label:
            assert {label["code"], *label.get("accept", ())} <= codes
            assert label["names"]
        assert factory.set_number in own_corpus.sets()


def test_every_factory_was_run_and_recorded() -> None:
    assert [each.id for each in own_corpus.factories()] == list(own_corpus.recorded())

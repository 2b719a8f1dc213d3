"""Texts of several sentences: what they tell of is found by sentences, figures and shared words."""

from __future__ import annotations

import pytest

from doctor.errors.match import MOST_LIKELY, with_message
from doctor.errors.nearness import likeliest
from doctor.errors.words import LONGEST, is_prose, is_said, symptoms


def test_words_of_different_sentences_are_not_one_phrase() -> None:
    text = (
        "With 2 cards the speed is about 30 samples/sec, with 1 card it is 110. It is the same "
        "machine. Each card is fine alone and the data is on a fast disk."
    )
    assert "same-data-again" not in {row.id for row in with_message(text, symptoms=True)}


def test_a_vague_text_gets_the_likeliest_causes_and_not_more_than_three() -> None:
    text = (
        "I fine-tuned whisper for Nepali. The loss is good, but the transcriptions repeat the "
        "same word and are English. My rate is 1e-5."
    )
    found = likeliest(text, MOST_LIKELY)
    assert found[0].id == "speech-text-wrong"
    assert len(found) <= MOST_LIKELY


def test_a_single_shared_word_names_nothing() -> None:
    text = "I wrote a small tool that shows utilization in a window. It works while I am away."
    assert not likeliest(text, MOST_LIKELY)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("A run on one GPU needs 390 s per epoch. With two GPUs it is 890 s.",
         "more-gpus-not-faster"),
        ("Since I upgraded torch a step takes 1.4 s, before it was 0.9 s.", "slower-after-upgrade"),
        ("The GPU usage is about 20% while I train.", "gpu-not-busy"),
    ],
)  # fmt: skip
def test_figures_say_that_something_is_slower(text: str, cause: str) -> None:
    assert symptoms(text)[0][1].id == cause


@pytest.mark.parametrize(
    "text",
    [
        "Since I upgraded torch a step takes 0.91 s, before it was 0.92 s.",
        "A run on one GPU needs 390 s per epoch. With two GPUs it is 380 s of video.",
        "The GPU usage is about 97% while I train.",
    ],
)
def test_figures_that_are_alike_or_high_say_nothing(text: str) -> None:
    assert not symptoms(text)


def test_settings_and_paths_in_the_sentences_of_a_person_leave_them_words() -> None:
    text = (
        "I train with lr=2e-5, bs=8 and data in /data/my/set. My loss does not decrease at all "
        "and I have no idea what to look at."
    )
    assert is_said(text)
    assert is_prose(text)
    assert with_message(text, symptoms=True)[0].id == "loss-does-not-fall"
    assert not is_said("step: 10 loss: 2.31 lr: 0.1. step: 20 loss: 2.30 lr: 0.1.")
    assert not is_said("my loss does not fall. " * (LONGEST // 20))


@pytest.mark.parametrize(
    "line",
    [
        "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. It is held by 12",
        "Another app is currently holding the yum lock; waiting for it to exit...",
        "dpkg: warning: files list file for package 'x' missing",
        "Loading extension module fused_adam...",
        "Using /root/.cache/torch_extensions/py310_cu121 as PyTorch extensions root...",
        "Time to load fused_adam op: 0.2 seconds",
    ],
)
def test_packages_that_wait_and_extensions_that_load_are_no_fault(line: str) -> None:
    assert not with_message(line)


def test_an_extension_that_is_missing_was_not_built() -> None:
    text = (
        "ImportError: /root/.cache/torch_extensions/py310_cu121/cpu_adam/cpu_adam.so: cannot open "
        "shared object file: No such file or directory"
    )
    assert with_message(text)[0].id == "extension-not-built"

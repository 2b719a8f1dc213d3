"""Threads and pages about data that reached a model in another form than was meant."""

from __future__ import annotations

from functools import partial

from doctor.judge.sources.source import thread

READ = "2026-11-22"
_thread = partial(thread, checked=READ)


DATA_THREADS = (
    _thread("huggingface/trl", 6025, "Warn if a batch has no trained label", "pull"),
    _thread("unslothai/unsloth", 1128, "All labels are -100"),
    _thread("unslothai/unsloth", 416, "A fine-tuned model does not stop"),
    _thread("meta-llama/llama-cookbook", 640, "A fine-tuned model does not stop generating"),
    _thread("modelscope/ms-swift", 2955, "Answers are cut at the maximum length"),
    _thread("MakazhanAlpamys/Soup", 781, "BOS twice"),
    _thread("huggingface/datasets", 4261, "Samples in two splits"),
    _thread("embeddings-benchmark/mteb", 1036, "Samples in two splits"),
    _thread("happynear/NormFace", 4, "Data sorted by class, without shuffling"),
    _thread("vlfeat/matconvnet", 393, "Data sorted by class, without shuffling"),
    _thread("alankbi/detecto", 16, "Images without the normalization of the weights"),
    _thread("Cadene/pretrained-models.pytorch", 66, "Images in another range than expected"),
    _thread("openai/parameter-golf", 82, "Short and empty shards after a download"),
    _thread("huggingface/trl", 3279, "Which part of a chat is trained"),
    _thread("lm-sys/FastChat", 2992, "A template of another family"),
    _thread("huggingface/transformers", 47394, "GIT: labels shifted twice"),
    _thread("huggingface/transformers", 44642, "Labels shifted twice", "pull"),
)  # fmt: skip

"""Threads and pages about data that reached a model in another form than was meant."""

from __future__ import annotations

from doctor.judge.sources.source import Source

READ = "2026-11-22"


def _thread(repository: str, number: int, title: str, kind: str = "issues") -> Source:
    address = f"https://github.com/{repository}/{kind}/{number}"
    name = repository.split("/")[1]
    return Source(f"{name}-{number}", title, f"#{number}", address, checked=READ)


DATA_THREADS = (
    _thread("huggingface/trl", 6025, "Warn if a batch has no trained label", "pull"),
    _thread("unslothai/unsloth", 1128, "All labels are -100"),
    _thread("unslothai/unsloth", 416, "A fine-tuned model does not stop"),
    _thread("meta-llama/llama-cookbook", 640, "A fine-tuned model does not stop generating"),
    _thread("modelscope/ms-swift", 2955, "Answers are cut at the maximum length"),
    _thread("MakazhanAlpamys/Soup", 781, "BOS twice"),
    _thread("huggingface/transformers", 47394, "GIT: labels shifted twice"),
    _thread("huggingface/transformers", 44642, "Labels shifted twice", "pull"),
)

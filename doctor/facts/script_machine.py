"""What rules on scripts may know of the machine that the script is to run on."""

from __future__ import annotations

from doctor._util.records import Section


class ScriptMachine(Section, frozen=True, kw_only=True):
    """None is not known: the script is judged by itself."""

    capability: tuple[int, int] | None = None
    """The lowest compute capability of the job's GPUs."""
    torch: str | None = None
    transformers: str | None = None
    flash_attention: bool | None = None
    """Whether flash_attention_2 works in the training interpreter."""
    gpus: int | None = None

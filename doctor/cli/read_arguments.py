"""The usual command lines of `doctor read`."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from doctor.cli.config_choice import PlainConfig
from doctor.cli.plain_arguments import FAIL_ON, FORMAT, VERBOSITY, Flags, parse

READ = Flags(
    switches={
        "--no-config": ("no_config", True),
        "--no-ignores": ("no_ignores", True),
        "--annotate": ("annotate", True),
        "--redact": ("redact", True),
        "--no-redact": ("redact", False),
        **VERBOSITY,
    },
    values={
        "--format": FORMAT,
        "--fail-on": FAIL_ON,
        "--color": ("color", ("auto", "always", "never")),
    },
    lists={
        "--only": "only", "--skip": "skip", "--ignore": "skip", "--output": "output",
        "--inject": "inject",
    },
)  # fmt: skip


def read(words: Sequence[str]) -> int | None:
    """Run the command; None for a command line that the parser must read. Raises UserError."""
    parsed = parse(words, READ)
    if parsed is None or len(parsed[1]) != 1:
        return None
    gc.disable()  # imports make many objects and no garbage; the collector would only walk them
    try:
        return _run(parsed[0], Path(parsed[1][0]))
    finally:
        gc.enable()


def _run(fields: Mapping[str, Any], path: Path) -> int:
    from doctor.cli.read import read_report
    from doctor.report import delivery

    redact = fields.get("redact")
    output = delivery.output_options(
        fields.get("format", "console"),
        fields.get("output", ()),
        fields.get("color", "auto"),
        annotate=fields.get("annotate", False),
        keep_names=redact is False,
        hide_nodes=redact is True,
        verbose=fields.get("verbose", False),
        quiet=fields.get("quiet", False),
    )
    flags: dict[str, object] = {name: fields[name] for name in ("only", "skip") if name in fields}
    config = PlainConfig(
        no_config=fields.get("no_config", False),
        no_ignores=fields.get("no_ignores", False),
        inject=fields.get("inject", ()),
    )
    report = read_report(path, flags, config, fields.get("fail_on", "fail"))
    return delivery.deliver(report, output)

"""Write a finished report to stdout, to files and to the CI that it runs in."""

from __future__ import annotations

import difflib
import os
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from doctor._util.atomic_write import atomic_write, check_writable
from doctor._util.errors import UserError
from doctor._util.limits import address_space_is_limited
from doctor._util.records import Unknown
from doctor._util.units import visible
from doctor.facts.facts import encode
from doctor.report import prolog, terminal
from doctor.report.formats.table import RENDERERS, Format
from doctor.report.line import Detail
from doctor.report.names import this_machine
from doctor.report.redaction import pseudonymous, redact
from doctor.report.report import Report
from doctor.report.shown import samples_of
from doctor.report.terminal import Color

STDOUT = Path("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Formats, files and level of detail of a report."""

    format: Format = "console"
    outputs: tuple[tuple[str, Path], ...] = ()
    """Format and file of each --output."""
    save_facts: Path | None = None
    """File for the facts; "-" for stdout, which then holds nothing else."""
    color: Color = "auto"
    detail: Detail = "normal"
    annotate: bool = False
    keep_names: bool = False
    hide_nodes: bool = False
    """Names of nodes, which a report prints because they are its answer, become pseudonyms."""
    shared: bool = False
    """Others may read the facts, as the umask allows."""


def prepare(options: OutputOptions) -> None:
    """Import what prints the report, in a thread: the caller waits for torch in the meantime."""
    if options.format == "console" and not address_space_is_limited():
        threading.Thread(target=import_module, args=("rich.console",), daemon=True).start()


def output_options(
    format: Format,
    outputs: Sequence[str],
    color: Color = "auto",
    *,
    save_facts: Path | None = None,
    one_line: bool = False,
    stdout_taken: bool = False,
    annotate: bool = False,
    keep_names: bool = False,
    hide_nodes: bool = False,
    verbose: bool = False,
    quiet: bool = False,
    shared: bool = False,
    formats: Collection[str] = tuple(RENDERERS),
) -> OutputOptions:
    """From flags. Raises UserError for a file that cannot be written or is named twice.

    `one_line`: stdout is for the line of --context prolog. `stdout_taken`: it belongs to another
    program, and the report goes to stderr.
    """
    if verbose and quiet:
        raise UserError("--verbose cannot be combined with --quiet; omit one of them")
    files = parse_outputs(outputs, save_facts, formats)
    printed = [name for name, path in files if path == STDOUT]
    if printed and stdout_taken:
        raise UserError(
            f"--output {printed[0]}=-: stdout belongs to the training; --format {printed[0]} "
            "prints it on stderr"
        )
    if printed:
        _only_on_stdout(f"--output {printed[0]}=-", format, one_line, save_facts)
        format = printed[0]
    elif save_facts == STDOUT:
        _only_on_stdout("--save-facts -", format, one_line, None)
    return OutputOptions(
        format=format,
        outputs=tuple(pair for pair in files if pair[1] != STDOUT),
        save_facts=save_facts,
        color=color,
        detail="quiet" if quiet else "verbose" if verbose else "normal",
        annotate=annotate,
        keep_names=keep_names,
        hide_nodes=hide_nodes,
        shared=shared,
    )


def _only_on_stdout(flag: str, format: Format, one_line: bool, save_facts: Path | None) -> None:
    """Raise UserError if stdout is for something else, too."""
    other = "--context prolog" if one_line else f"--format {format}" if format != "console" else ""
    other = "--save-facts -" if save_facts == STDOUT else other
    if other:
        raise UserError(f"{flag} and {other} both write to stdout; name a file for one of them")


def parse_outputs(
    values: Sequence[str], save_facts: Path | None, formats: Collection[str] = tuple(RENDERERS)
) -> tuple[tuple[str, Path], ...]:
    """Parse FORMAT=FILE and check that each file can be written. Raises UserError."""
    used: set[str] = set()
    if save_facts:
        _check_output(save_facts, "--save-facts", used)
    outputs = []
    for value in values:
        format, equals, file = value.partition("=")
        if not equals or not file:
            raise UserError(f"--output {value}: expected FORMAT=FILE, for example html=report.html")
        if format not in formats:
            nearest = difflib.get_close_matches(format, formats, 1, 0.5)
            hint = f"did you mean {nearest[0]}?" if nearest else f"formats: {', '.join(formats)}"
            raise UserError(f"--output {value}: unknown format {format!r}; {hint}")
        _check_output(Path(file), "--output", used)
        outputs.append((format, Path(file)))
    return tuple(outputs)


def _check_output(path: Path, flag: str, used: set[str]) -> None:
    """Add the file to those that are used. Raises UserError if it is, or cannot be written."""
    name = "-" if path == STDOUT else os.path.realpath(path)
    if name in used:
        raise UserError(f"{flag} {path} is named twice; each report needs its own file")
    if path != STDOUT:
        check_writable(path, flag)
    used.add(name)


def deliver(report: Report, options: OutputOptions) -> int:
    """Write the files, print, publish to CI; return the exit code. Raises UserError.

    Files are written first, because the reader of stdout may close it early.
    """
    final = finished(report, options)
    errors = _write_files(report, final, options)
    _print(final, options)
    if errors:
        raise UserError("; ".join(map(str, errors)))
    _publish(final, options)
    if options.format == "nagios":
        from doctor.report.formats import nagios

        return nagios.exit_code(report)
    return report.exit_code


def deliver_text(draw: Callable[[str], str], options: OutputOptions) -> None:
    """Write and print what is no report, drawn in each format. Raises UserError."""
    written = [
        _write((draw(format) + "\n").encode("utf-8", "replace"), path, "--output")
        for format, path in options.outputs
    ]
    terminal.write(draw(options.format), sys.stdout)
    if errors := [error for error in written if error]:
        raise UserError("; ".join(map(str, errors)))


def deliver_on_stderr(report: Report, options: OutputOptions) -> None:
    """Write the files and print on stderr: stdout belongs to another program. Raises UserError."""
    final = finished(report, options)
    errors = _write_files(report, final, options)
    if options.format == "console":
        terminal.show(final, terminal.stderr_console(options.color), options.detail)
    else:
        terminal.write(_text(final, options), sys.stderr)
    if errors:
        raise UserError("; ".join(map(str, errors)))
    _publish(final, options)


def _publish(final: Report, options: OutputOptions) -> None:
    if _uses(options, "github"):
        from doctor.report.formats import github

        github.publish(final, dict(options.outputs), os.environ)


def deliver_in_prolog(report: Report, options: OutputOptions) -> int:
    """Print one line and write the files; return the exit code, which no write error changes."""
    final = finished(report, options)
    prolog.print_line(prolog.line(final))
    _write_files(report, final, options)
    return prolog.exit_code(report)


def finished(report: Report, options: OutputOptions) -> Report:
    """The redacted report, with a prescription if a format shows it and there is a machine."""
    prescribed = _uses(options, "html") and not isinstance(report.facts.host, Unknown)
    final = redact(
        replace(report, annotate=options.annotate),
        keep_names=options.keep_names,
        hide_nodes=options.hide_nodes,
        here=this_machine(),
    )
    if not prescribed:
        return final
    from doctor.prescribe.rules import prescribe

    return replace(final, settings=prescribe(final.facts, final.findings))


def _write_files(report: Report, final: Report, options: OutputOptions) -> list[UserError]:
    """Write the facts and the redacted reports; return what could not be written."""
    errors = []
    saved = pseudonymous(report.facts, this_machine()) if options.hide_nodes else report.facts
    if options.save_facts == STDOUT:
        sys.stdout.buffer.write(encode(saved))
    elif options.save_facts:
        facts = encode(saved)
        private = not options.shared
        errors.append(_write(facts, options.save_facts, "--save-facts", private=private))
    for format, path in options.outputs:
        data = (RENDERERS[format](final) + "\n").encode("utf-8", "replace")
        errors.append(_write(data, path, "--output", private=bool(samples_of(final))))
    return [error for error in errors if error]


def _write(data: bytes, path: Path, flag: str, *, private: bool = False) -> UserError | None:
    """Write one file; return the error instead of raising it, so that the others are written."""
    try:
        atomic_write(path, data, flag, private=private)
    except UserError as error:
        return error
    return None


def _uses(options: OutputOptions, format: str) -> bool:
    return format == options.format or format in dict(options.outputs)


def _print(report: Report, options: OutputOptions) -> None:
    """The report on stdout; where that holds the facts, the verdict line on stderr."""
    if options.save_facts == STDOUT:
        terminal.write(visible(report.verdict_line), sys.stderr)
    elif options.format == "console":
        terminal.show(report, terminal.stdout_console(options.color), options.detail)
    else:
        terminal.write(_text(report, options), sys.stdout)


def _text(report: Report, options: OutputOptions) -> str:
    if options.format == "plain":
        from doctor.report.formats.plain import render

        return render(report, options.detail)
    return RENDERERS[options.format](report)

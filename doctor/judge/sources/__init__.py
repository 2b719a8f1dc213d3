"""The bibliography that remedies cite by id."""

from __future__ import annotations

from doctor.judge.sources.data_threads import DATA_THREADS
from doctor.judge.sources.documents import DOCUMENTS
from doctor.judge.sources.library_files import LIBRARY_FILES
from doctor.judge.sources.library_pages import LIBRARY_PAGES
from doctor.judge.sources.log_threads import LOG_THREADS
from doctor.judge.sources.machine_pages import MACHINE_PAGES
from doctor.judge.sources.machine_threads import MACHINE_THREADS
from doctor.judge.sources.mistake_threads import MISTAKE_THREADS
from doctor.judge.sources.node_threads import NODE_THREADS
from doctor.judge.sources.script_pages import SCRIPT_PAGES
from doctor.judge.sources.script_threads import SCRIPT_THREADS
from doctor.judge.sources.setting_threads import SETTING_THREADS
from doctor.judge.sources.source import Source
from doctor.judge.sources.torch_pages import TORCH_PAGES

__all__ = ["DOCUMENTS", "SOURCES", "Source", "cite", "is_document", "issue", "short_section"]

SOURCES = {
    source.id: source
    for source in (
        *DOCUMENTS,
        *MACHINE_PAGES,
        *MACHINE_THREADS,
        *TORCH_PAGES,
        *LIBRARY_PAGES,
        *LIBRARY_FILES,
        *LOG_THREADS,
        *NODE_THREADS,
        *DATA_THREADS,
        *SCRIPT_PAGES,
        *SCRIPT_THREADS,
        *MISTAKE_THREADS,
        *SETTING_THREADS,
    )
}


def is_document(id: str) -> bool:
    """Whether a source is a section of a source document rather than a public address."""
    return bool(SOURCES[id].document)


def issue(id: str) -> str:
    """The issue or pull request that a source stands for: "pytorch-127176" is pytorch#127176."""
    return "#".join(id.rsplit("-", 1))


def short_section(source: Source) -> str:
    """The section's number or short name where it has one, else its heading."""
    heading = " ".join(source.section.replace("*", "").split())
    return source.alias or heading


def cite(source: Source) -> str:
    """One line: the document's name and section, or title, section and address."""
    section = " ".join(source.section.replace("*", "").split())
    if source.alias and not section.startswith(source.alias):
        section = f"{section}: {source.alias}"
    if source.document:
        return f"document {source.document}, {section}"
    title = f"{source.title}, {section}" if section else source.title
    return f"{title} <{source.url}>"

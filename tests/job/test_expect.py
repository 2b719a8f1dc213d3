"""Sizes, patterns on names and versions, as [expect] spells them."""

from __future__ import annotations

import pytest

from doctor.job.expect import matches_name, matches_version, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("80GB", 80 * 10**9), ("79.5GiB", 79.5 * 2**30), ("8 MB", 8 * 10**6), ("1TiB", 2**40)],
)
def test_sizes(text: str, size: float) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "80", "80G", "GB", "-1GB", "1e3GB", "80GBs"])
def test_a_text_that_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("h100", "NVIDIA H100 PCIe", True),
        ("A100", "NVIDIA RTX A1000", False),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("RTX 4090", "NVIDIA GeForce RTX 4090", True),
        ("*4090", "NVIDIA GeForce RTX 4090 D", False),
        ("*h[12]00*", "NVIDIA H200", True),
        ("(", "NVIDIA H200", False),
    ],
)
def test_patterns_on_names(pattern: str, name: str, matches: bool) -> None:
    assert matches_name(pattern, name) is matches


@pytest.mark.parametrize(
    ("expected", "version", "matches"),
    [
        ("570", "570.86.10", True),
        ("57", "570.86.10", False),
        (">=570", "580.95.05", True),
        (">=570,<580", "580.95.05", False),
        ("2.11", "2.11.0+cu130", True),
        ("2.1", "2.11.0", False),
        ("==2.11.0", "2.11.0+cu130", True),
        ("2.9", "2.9.0a0+50eac811a6.nv25.9", True),
        (">=2.12", "2.13.0.dev20261101+cu130", True),
    ],
)
def test_versions(expected: str, version: str, matches: bool) -> None:
    assert matches_version(expected, version) is matches

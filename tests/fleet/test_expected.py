"""Lists of nodes, as users and Slurm write them."""

from __future__ import annotations

import pytest

from doctor.fleet.expected import parse_names
from doctor.fleet.groups import parse_groups


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-[01-03]", ["gpu-01", "gpu-02", "gpu-03"]),
        ("gpu-[1,3],login1", ["gpu-1", "gpu-3", "login1"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
        ("a b\nc # the third\n\n", ["a", "b", "c"]),
        ("a,a", ["a"]),
    ],
)
def test_lists_of_nodes(text: str, names: list[str]) -> None:
    assert list(parse_names(text)) == names


@pytest.mark.parametrize(
    "text",
    ["", "# nothing", "gpu-[1-", "gpu-[a-b]", "gpu-[3-1]x[1-2", "a;b", "n[1-999999999]",
     "n[1-1000][1-1000]", "n" * 300, "../x", "-n"],
)  # fmt: skip
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"nodes?|numbers|empty"):
        parse_names(text)


def test_slurms_topology_and_plain_racks() -> None:
    text = """
    # the fabric
    SwitchName=s1 Nodes=gpu-[01-02] LinkSpeed=400
    SwitchName=s2 Nodes=gpu-[03-04]
    SwitchName=core Switches=s[1-2]
    BlockName=b1 Nodes=node9
    """
    groups = parse_groups(text)
    assert groups == {
        "gpu-01": "s1",
        "gpu-02": "s1",
        "gpu-03": "s2",
        "gpu-04": "s2",
        "node9": "b1",
    }
    assert parse_groups("rack1: a, b\nrack2: c") == {"a": "rack1", "b": "rack1", "c": "rack2"}
    with pytest.raises(ValueError, match="line 1"):
        parse_groups("nonsense")

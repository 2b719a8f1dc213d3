"""The check modules, each with its CHECKS in the order they are judged.

In: sections and views of `Facts`, named by a judge's parameters.
Out: a `Verdict`: observed value, required value, and the remedy for this machine.
A package per family (`gpu`, `numerics`, `training`, ...); `CHECKS` of a module lists its constants,
and `doctor.catalog` puts the families together. `script` has rules (`Rule`) in place of checks.
Judges are pure. They import `facts`, `judge` and the readers' records, never `collect` or `report`.
A number that decides is a constant: with its source, or with the words "Our own number".
"""

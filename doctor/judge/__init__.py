"""What a check is, the engine that runs the checks, and the sources that they cite.

In: checks and `Facts`.
Out: findings: each check with its verdict (`pass`, `note`, `warn`, `fail`, `skip`, `unknown`).
`check` has the records, `engine.examine` calls each judge with the sections that it names, after
the checks that it depends on; `combine.worst` makes one verdict of several; `sources` are cited by
id. Pure: nothing is read or started. Knows no check: `doctor.catalog` lists them.
"""

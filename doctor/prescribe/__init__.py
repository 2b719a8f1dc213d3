"""The settings that a machine should train with.

In: facts and findings.
Out: `Setting`s: each as Python, variables, Trainer arguments and an accelerate configuration.
`rules` has the order; each rule looks at the context and returns a setting or None. The check that
a setting rests on stands in `citations`.
Imports `catalog`, `judge` and `facts`; no check module, no report.
"""

"""Which of the causes of a symptom the settings that a log states decide.

A row relates symptoms and evidence to a cause of `doctor.errors`; the first row whose evidence
holds counts.
"""

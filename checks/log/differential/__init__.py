"""Which of the causes of a symptom the settings that a log states decide.

A row relates a symptom and evidence to a cause with its own remedy; the first row whose evidence
holds counts.
"""

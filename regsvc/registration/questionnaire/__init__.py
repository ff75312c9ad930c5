"""The questionnaire: file, scoring and results."""

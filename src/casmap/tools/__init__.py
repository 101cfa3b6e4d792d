"""What users run beside training and extraction: check, correct, doctor, export, annotate, demo."""

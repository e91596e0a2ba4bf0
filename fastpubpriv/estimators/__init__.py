"""Estimators: passes chosen by public and released numbers, releases paid by one account, results as frozen values."""

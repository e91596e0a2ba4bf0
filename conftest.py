"""Plugins of all tests: their keys (tests/fixed_keys/fixed_keys.py), and what is run by `make test` (tests/tiers.py)."""

pytest_plugins = ["fixed_keys", "tiers"]

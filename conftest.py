"""The keys of every ordinary test, guard and example are fixed: see tests/fixed_keys/fixed_keys.py."""

pytest_plugins = ["fixed_keys"]

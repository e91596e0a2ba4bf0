"""Demonstration on real tables in six pages, each with alternatives to the main estimator: `python -m examples.demo`."""

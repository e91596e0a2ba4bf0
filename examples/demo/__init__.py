"""The main job on a real table, beside what else one could have done, in six pages: `python -m examples.demo`."""

"""Accuracy on real tables: every estimator against hindsight, against no privacy at all, and against its peers."""

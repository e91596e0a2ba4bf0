"""Accuracy on real tables: every estimator against the best choice in hindsight, non-private estimates, and its peers."""

"""Stable histograms of one or several columns, and their bins."""

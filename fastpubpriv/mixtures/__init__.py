"""Mixtures of Gaussians: separated ones with a few public rows (paper A), axis-aligned ones without a range (paper C)."""

"""Mixtures of separated Gaussians: cluster trees, balls, leaves."""

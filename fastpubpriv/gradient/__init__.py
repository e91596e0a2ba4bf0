"""Training by noisy gradients: Algorithm 1 of paper B, and its baselines."""

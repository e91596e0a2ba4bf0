"""Training by noisy gradients: Algorithm 1 of paper B, its baselines, and sweeps over their settings on simulated rows."""

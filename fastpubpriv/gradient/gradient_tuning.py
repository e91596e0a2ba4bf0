"""The tuned numbers of the gradient methods: meaning and unit of each. Those of public fits are in `regression_tuning`."""

from __future__ import annotations

# ---- Noisy gradients (`python -m benchmarks.papers b-tables-5-10`).
FULL_STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # candidate numbers of steps with full batches
EPOCHS = (1.0, 4.0, 16.0)  # candidate passes over the rows with sampled batches
MOST_SAMPLED = 20_000  # maximum number of steps with sampled batches
# candidate weights of the private gradient
WEIGHTS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# candidate step sizes over the longest stable one
SIZES = tuple(2.0 ** (-k / 2.0) for k in range(18))
NUDGE = 1e-3  # change of predictions for numerical derivatives
LEAST_EIGENVALUE = 1e-9  # least eigenvalue of the curvature over the largest
# least mean square of a gradient at the best weights, over that at the public fit
LEAST_SETTLED = 0.25
CONTRACTION_DOUBT = 0.15  # relative error of the contraction of a step
# Excess over the planned one that is no chance: a fit of three coefficients is beyond it in .2 % of draws, by a chi-squared law.
BEYOND_PLAN = 5.0
# Candidate ridges of the public fit, in rows of unit length: 100 apart, most fits of classes were next to zero, which makes
# curvatures too large (.24 for .15) and predictions too small: `python -m benchmarks.training_choice --loss logistic`.
RIDGES = (1e-2, 0.1, 1.0, 10.0, 100.0)

# ---- One release: a choice among models, and output perturbation.
LOSS_QUANTILE = 0.99  # quantile of the differences of public losses that is their clip
TRUTHS = 32  # number of true models that a prediction draws from the uncertainty of the public fit
LEFT = 0.1  # distance to the minimum that the fixed number of steps may leave, over the noise
STRENGTHS = tuple(2.0**-k for k in range(12))  # candidate ridges, over curvature * radius^2
SHARES = (1.0, 0.5, 0.25, 0.1)  # candidate private weights, over n / (n + m)

"""The ladder of `estimate_gaussian`: from the public rows alone to a full private covariance, chosen by predicted error."""

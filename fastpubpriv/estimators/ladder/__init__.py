"""The ladder of `estimate_gaussian`: from the public rows alone to a full private covariance, as far up as is predicted to help."""

"""One Gaussian: mean and covariance by rounds of second moments, with public rows as a prior, and principal directions."""

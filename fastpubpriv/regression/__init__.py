"""Linear and logistic regression: coordinates, public fits, Newton steps, the exact step, its point and its reasons."""

"""Private choices among candidates: scores of hypotheses, and the cover of Gaussian candidates."""

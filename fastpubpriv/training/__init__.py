"""Linear and logistic models from private labelled rows and some public ones."""

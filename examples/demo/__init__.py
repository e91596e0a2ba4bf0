"""The pages of `fastpubpriv demo`."""

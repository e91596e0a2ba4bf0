"""Benchmarks that need PyTorch and Opacus: `pip install 'fastpubpriv[torch]'`."""

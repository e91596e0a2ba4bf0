"""What needs PyTorch and Opacus: `pip install 'fastpubpriv[torch]'`."""

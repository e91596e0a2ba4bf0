"""Interface to PyTorch: Algorithm 1 of paper B for any module with per-row gradients by Opacus.

Needs `pip install 'fastpubpriv[torch]'`. Opacus computes the per-row gradients; this library does noise, batches and accounting.
"""

from fastpubpriv.torch.module_training import SemiPrivateTraining, make_semi_private

__all__ = ["SemiPrivateTraining", "make_semi_private"]

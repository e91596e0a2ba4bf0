"""The bridge to PyTorch: Algorithm 1 of paper B for any module whose gradients Opacus can take row by row.

Needs `pip install 'fastpubpriv[torch]'`. Opacus gives the gradient of each row; noise, batches and accounting are this library's.
"""

from fastpubpriv.torch.module_training import SemiPrivateTraining, make_semi_private

__all__ = ["SemiPrivateTraining", "make_semi_private"]

"""The kind of figure that `plot` returns; imported when something is drawn, as it needs Matplotlib."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure outside of pyplot, so without a screen and global state, that a notebook shows without `%matplotlib inline`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        """What a notebook asks for."""
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()

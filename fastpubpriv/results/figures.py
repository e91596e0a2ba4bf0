"""The figure class that `plot` methods return; imported only when drawing, since it needs Matplotlib."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure created without pyplot, so without display and global state; notebooks show it without `%matplotlib inline`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        """Return the figure as PNG data for notebooks."""
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()

"""Tables 5 to 10 of paper B as printed: test loss by method, with tuned settings."""

from __future__ import annotations

from dataclasses import dataclass

ALGORITHM_1, MIRROR, DP_SGD, THROW_AWAY = "Algorithm 1", "PDA-MD", "DP-SGD", "throw-away"
METHODS = (ALGORITHM_1, MIRROR, DP_SGD, THROW_AWAY)
RATIOS = (0.01, 0.03, 0.04, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of a table."""

    ratio: float
    epsilon: float
    warm: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table and the figure of the same numbers; `losses` has a line for each cell, in the order of `METHODS`."""

    number: int
    figure: int
    cells: tuple[Cell, ...]
    losses: tuple[tuple[float, float, float, float], ...]

    @property
    def by_ratio(self) -> bool:
        """True where the ratio varies, False where epsilon does."""
        return self.cells[0].epsilon == self.cells[1].epsilon

    @property
    def title(self) -> str:
        """Title: the quantity that is held fixed."""
        first = self.cells[0]
        start = "warm" if first.warm else "cold"
        fixed = f"ε = {first.epsilon:g}" if self.by_ratio else f"n_pub/n = {first.ratio:g}"
        return f"Table {self.number} (Figure {self.figure}): {fixed}, {start} start"


def _by_ratio(epsilon: float, warm: bool) -> tuple[Cell, ...]:
    return tuple(Cell(ratio, epsilon, warm) for ratio in RATIOS)


def _by_epsilon(ratio: float, warm: bool) -> tuple[Cell, ...]:
    return tuple(Cell(ratio, epsilon, warm) for epsilon in EPSILONS)


TABLES = (
    Table(
        5,
        3,
        _by_ratio(2.0, True),
        (
            (2.3526, 1689.5905, 2.7935, 1689.5905),
            (1.9719, 1084.2257, 2.1457, 1084.2256),
            (1.7626, 776.1302, 2.1417, 776.1301),
            (1.1648, 1.1880, 1.1695, 3.1133),
            (1.1260, 1.1306, 1.1346, 1.3691),
            (1.1043, 1.1394, 1.1065, 1.1539),
            (1.0946, 1.1013, 1.0937, 1.1013),
            (1.0787, 1.0787, 1.0787, 1.0788),
            (1.0725, 1.0725, 1.0725, 1.0725),
        ),
    ),
    Table(
        6,
        4,
        _by_ratio(4.0, True),
        (
            (1.5020, 1689.5905, 1.5206, 1689.5905),
            (1.3363, 1084.2257, 1.3769, 1084.2256),
            (1.3196, 776.1302, 1.3776, 776.1302),
            (1.1201, 1.1376, 1.1221, 3.1133),
            (1.1030, 1.1090, 1.1103, 1.3691),
            (1.0911, 1.1019, 1.0999, 1.1539),
            (1.0863, 1.1013, 1.0877, 1.1013),
            (1.0787, 1.0787, 1.0787, 1.0788),
            (1.0725, 1.0725, 1.0725, 1.0725),
        ),
    ),
    Table(
        7,
        9,
        _by_epsilon(0.1, True),
        (
            (2.9509, 3.1133, 3.1133, 3.1133),
            (1.6841, 1.9602, 1.8588, 3.1133),
            (1.3125, 1.3201, 1.3158, 3.1133),
            (1.1648, 1.1880, 1.1695, 3.1133),
            (1.1201, 1.1376, 1.1221, 3.1133),
            (1.1088, 1.1120, 1.1104, 3.1133),
        ),
    ),
    Table(
        8,
        10,
        _by_epsilon(0.25, True),
        (
            (1.3691, 1.3691, 1.3691, 1.3691),
            (1.2647, 1.3691, 1.2679, 1.3691),
            (1.1764, 1.2099, 1.1880, 1.3691),
            (1.1260, 1.1306, 1.1346, 1.3691),
            (1.1030, 1.1090, 1.1103, 1.3691),
            (1.0976, 1.1023, 1.1041, 1.3691),
        ),
    ),
    Table(
        9,
        5,
        _by_ratio(4.0, False),
        (
            (1.5175, 2010.2422, 1.5411, 1689.5905),
            (1.4225, 2010.2422, 1.5411, 1084.2256),
            (1.3989, 2010.2422, 1.5413, 776.1302),
            (1.3371, 5.3822, 1.5413, 3.1133),
            (1.2574, 2.6205, 1.5411, 1.3691),
            (1.1539, 5.9698, 1.5411, 1.1539),
            (1.1013, 78.9970, 1.5411, 1.1013),
            (1.0787, 1053.6185, 1.5411, 1.0788),
            (1.0725, 1662.3572, 1.5413, 1.0725),
        ),
    ),
    Table(
        10,
        11,
        _by_epsilon(0.1, False),
        (
            (3.1133, 1956.6069, 1830.1820, 3.1133),
            (3.1133, 1092.1338, 213.6728, 3.1133),
            (2.1843, 306.5518, 15.8089, 3.1133),
            (1.6313, 34.4665, 2.7226, 3.1133),
            (1.3359, 5.3648, 1.4746, 3.1133),
            (1.1986, 2.4319, 1.2472, 3.1133),
        ),
    ),
)

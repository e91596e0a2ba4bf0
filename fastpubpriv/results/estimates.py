"""Frozen results: read-only arrays, short repr, JSON, plots. They hold released and public values only."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.linalg import solve_triangular

from fastpubpriv import validation
from fastpubpriv._types import FloatArray
from fastpubpriv.columns import points
from fastpubpriv.errors import InputError
from fastpubpriv.reading import Form, read_field, read_json, refuse_no_covariances, shortened


def frozen(array: Any) -> FloatArray:
    """Return a read-only float64 copy, or the array itself if it is one already: matrices may be large."""
    if type(array) is np.ndarray and array.dtype == np.float64 and array.flags.owndata and not array.flags.writeable:
        return array
    copy = np.array(array, dtype=np.float64)
    copy.flags.writeable = False
    return copy


def plain(value: Any) -> Any:
    """Turn a result's field into what JSON knows; exact fractions keep their numerator and denominator."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Fraction):
        return {"exact": f"{value.numerator}/{value.denominator}", "value": float(value)}
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _rebuilt(kind: type[Result], fields: dict[str, Any]) -> Result:
    return kind(**fields)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """What every estimator returns besides its estimate.

    Attributes
    ----------
    n_priv, n_pub, dim : int
        Public sizes.
    spent : ZCDP, ApproxDP, PureDP or Cost
        The price of the call under `relation`, as debited; a zero Cost when no private row was read.
    private : bool
        False when the noise came from a seed.
    relation : str
        "replace one private row; the number of rows is public".
    releases : tuple of dict
        For each release, in order: name, noise law, exact cost, and in the coordinates in which rows were clipped (whitened ones
        where there is a covariance) the clip radius and the standard deviation of the noise on the *sum*.
    provenance : dict
        Where each radius and scale came from: "public rows", "argument" or "released".
    numerics : dict
        Draws of noise and the distance of the samplers from their ideal laws.
    """

    n_priv: int
    n_pub: int
    dim: int
    spent: Any
    private: bool
    relation: str = "replace one private row; the number of rows is public"
    releases: tuple[dict[str, Any], ...] = ()
    provenance: dict[str, str] = dataclasses.field(default_factory=dict)
    numerics: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        # Here, so that unpickling and dataclasses.replace give read-only arrays too.
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, frozen(value))

    def __reduce__(self) -> Any:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return _rebuilt, (type(self), fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain lists, numbers and strings, ready for JSON."""
        fields = {field.name: plain(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return {"kind": type(self).__name__, **fields}

    def to_json(self, path: str | Path | None = None, *, indent: int = 2) -> str:
        """Return the JSON text of the result, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=indent, allow_nan=False)
        if path is not None:
            Path(validation.path_name(path)).write_text(text + "\n", encoding="utf-8")
        return text

    @classmethod
    def _fields_of(cls, text: str, **forms: Form) -> dict[str, Any]:
        """The fields in a JSON text of this class, each in its type; `forms` has shapes of arrays, and readers of other fields.

        InputError for a text that `to_json` does not write.
        """
        data = read_json(text, cls.__name__)
        if data.pop("kind", None) != cls.__name__:
            raise InputError(f"this JSON text is not a {cls.__name__}")
        fields = {field.name: field for field in dataclasses.fields(cls)}
        optional = {
            name
            for name, field in fields.items()
            if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        }
        for name in [*data, *fields]:
            if name not in fields or (name not in data and name not in optional):
                word = "lacks" if name in fields else "has an unknown"
                raise InputError(f"this JSON text is not a {cls.__name__}: it {word} field {shortened(name)}")
        sizes = {"dim": data["dim"]}
        found = {}
        for name in fields:  # in this order, so that a wrong dim is found before it is used
            if name in data:
                found[name] = read_field(name, str(fields[name].type), data[name], forms.get(name), sizes)
        if found["dim"] < 1:
            raise InputError(f"this JSON text is not a {cls.__name__}: it has no columns")
        if found.get("columns") is not None and len(found["columns"]) != found["dim"]:
            raise InputError(f"this JSON text is not a {cls.__name__}: it does not name {found['dim']} columns")
        return found

    def __repr__(self) -> str:
        flag = "" if self.private else ", private=False"
        return f"{type(self).__name__}(dim={self.dim}, n_priv={self.n_priv}, spent={self.spent!r}{flag})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MeanResult(Result):
    """A released mean.

    Attributes
    ----------
    mean : (dim,) float64
        The estimate, in data units.
    noise_std : (dim,) float64
        Standard deviation of the privacy noise in each coordinate.
    sampling_std : (dim,) float64
        Standard deviation of the mean of the rows themselves, from the assumed or public covariance.
    noise_law : str
        "gaussian", "laplace" or "k_norm".
    columns : tuple of str or None
        Names of the coordinates when the source had names.
    """

    mean: FloatArray
    noise_std: FloatArray
    sampling_std: FloatArray
    noise_law: str
    columns: tuple[str, ...] | None = None

    @property
    def standard_error(self) -> FloatArray:
        """Standard deviation of the estimate: privacy noise and sampling together, (dim,)."""
        total: FloatArray = np.hypot(self.noise_std, self.sampling_std)
        return total

    def confidence_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends, (dim,) each, of an interval for the mean of each coordinate.

        Counts privacy noise and sampling, under the covariance that the estimate was given; not the bias of clipping, nor of rows
        with missing entries, which count as rows at the public centre. Under pure DP the quantile of a Laplace law is used, which
        is on the safe side for levels of 0.9 and more.
        """
        level = validation.confidence_level(level)
        normal = float(stats.norm.ppf(0.5 + level / 2.0))
        laplace = -math.log1p(-level) / math.sqrt(2.0)
        width = (normal if self.noise_law == "gaussian" else max(normal, laplace)) * self.standard_error
        return self.mean - width, self.mean + width

    def plot(self, path: str | Path | None = None, *, level: float = 0.95) -> Any:
        """Draw the estimate with its interval, one panel for each coordinate (needs matplotlib); returns the figure."""
        from fastpubpriv.results import plots as plotting

        lower, upper = self.confidence_interval(level)
        estimates = [plotting.Estimate("private", self.mean, lower, upper)]
        return plotting.plot_means(estimates, columns=self.columns, path=path, level=level)


def correlation_of(covariance: FloatArray) -> FloatArray:
    """Correlation matrix of a covariance; a column with no variance is uncorrelated with the others."""
    scale = np.sqrt(np.diag(covariance))
    scale[scale == 0.0] = 1.0
    matrix: FloatArray = np.clip(covariance / np.outer(scale, scale), -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return matrix


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CovarianceResult(Result):
    """A released covariance in squared data units.

    Attributes
    ----------
    covariance : (dim, dim) float64
        Positive semi-definite.
    relative_noise_std : float
        Diagonal standard deviation of the privacy noise of the last round, relative to the covariance.
    steps : int
        Rounds.
    """

    covariance: FloatArray
    relative_noise_std: float
    steps: int
    columns: tuple[str, ...] | None = None

    @property
    def correlation(self) -> FloatArray:
        """Correlation matrix (dim, dim): post-processing of the covariance."""
        return correlation_of(self.covariance)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PCAResult(Result):
    """Released principal directions.

    Attributes
    ----------
    components : (n_components, dim) float64
        Orthonormal rows.
    eigenvalues : (n_components,) float64
        Of the noisy second moment about `center`, in squared data units.
    center : (dim,) float64
        The public centre.
    noise_norm : float
        Expected spectral norm of the noise on the second moment: eigenvalue gaps below it are not resolved.
    """

    components: FloatArray
    eigenvalues: FloatArray
    center: FloatArray
    noise_norm: float
    columns: tuple[str, ...] | None = None

    def transform(self, rows: Any) -> FloatArray:
        """Project rows (n, dim) onto the components, (n, n_components); columns of a frame are matched by name.

        The projection of private rows stays private data.
        """
        array = points(rows, self.dim, self.columns, finite=False)
        projected: FloatArray = (array - self.center) @ self.components.T
        return projected


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GaussianResult(Result):
    """A released Gaussian: mean and covariance in data units.

    Attributes
    ----------
    mean : (dim,) float64
    covariance : (dim, dim) float64
        Positive definite.
    mean_noise_std : (dim,) float64
        Standard deviation of the privacy noise in each coordinate of the mean.
    rounds : int
        Rounds of the covariance recursion.
    under_resolved : bool
        The rounds are too few, by the public rule, to reach the smallest eigenvalues, which may be far off.
    predicted_covariance_error, predicted_mean_error : float
        Relative Frobenius error of the covariance, and l2 error of the mean in standard deviations, from public numbers; infinite
        (null in JSON) when `under_resolved`.
    """

    mean: FloatArray
    covariance: FloatArray
    mean_noise_std: FloatArray
    rounds: int
    under_resolved: bool
    predicted_covariance_error: float
    predicted_mean_error: float
    learner: str
    columns: tuple[str, ...] | None = None

    @property
    def correlation(self) -> FloatArray:
        """Correlation matrix (dim, dim): post-processing of the covariance."""
        return correlation_of(self.covariance)

    def confidence_ellipse(
        self, first: int = 0, second: int = 1, *, level: float = 0.95
    ) -> tuple[FloatArray, FloatArray]:
        """Centre (2,) and points (181, 2) of the ellipse that holds a share `level` of the Gaussian in two coordinates."""
        level = validation.confidence_level(level)
        if not (0 <= first < self.dim and 0 <= second < self.dim and first != second):
            raise InputError(
                f"an ellipse needs two different columns from 0 to {self.dim - 1}, got {first} and {second}"
            )
        chosen = [first, second]
        factor = np.linalg.cholesky(self.covariance[np.ix_(chosen, chosen)])
        angle = np.linspace(0.0, 2.0 * math.pi, 181)
        radius = math.sqrt(-2.0 * math.log1p(-level))
        center = self.mean[chosen]
        return center, center + radius * np.column_stack([np.cos(angle), np.sin(angle)]) @ factor.T

    def _factor(self) -> FloatArray:
        """Lower factor of the covariance. Through the correlation, so that columns in very different units do not look singular."""
        scale = np.sqrt(np.diag(self.covariance))
        factor: FloatArray = scale[:, None] * np.linalg.cholesky(self.covariance / np.outer(scale, scale))
        return factor

    def sample(self, n: int, *, random_state: Any = None) -> FloatArray:
        """Draw n synthetic rows (n, dim) from the released Gaussian.

        Post-processing, so any generator will do: `random_state` is None, an int or a NumPy generator.
        """
        normals: FloatArray = stats.norm.rvs(size=(n, self.dim), random_state=random_state)
        drawn: FloatArray = self.mean + normals @ self._factor().T
        return drawn

    def log_prob(self, rows: Any) -> FloatArray:
        """Log density of the released Gaussian at finite rows (n, dim), (n,). Columns of a frame are matched by name."""
        array = np.atleast_2d(points(rows, self.dim, self.columns, finite=True))
        factor = self._factor()
        white = solve_triangular(factor, (array - self.mean).T, lower=True)
        constant = self.dim * math.log(2.0 * math.pi) / 2.0 + float(np.log(np.diag(factor)).sum())
        density: FloatArray = -np.einsum("ij,ij->j", white, white) / 2.0 - constant
        return density

    def plot(self, path: str | Path | None = None, *, level: float = 0.95) -> Any:
        """Draw ellipses of all pairs (up to five columns) or a correlation heat map; returns the figure (needs matplotlib)."""
        from fastpubpriv.results import plots as plotting

        return plotting.plot_gaussian(self, path=path, level=level)

    @classmethod
    def from_json(cls, text: str) -> GaussianResult:
        """Read back what `to_json` wrote: the estimate and public fields (the price comes back as a plain dict)."""
        found = cls(**cls._fields_of(text, mean=("dim",), covariance=("dim", "dim"), mean_noise_std=("dim",)))
        refuse_no_covariances(found.covariance[None])
        return found

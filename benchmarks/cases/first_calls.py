"""First calls: every public function and command on a small table, as the first call of a fresh process.

`FUNCTIONS` holds a call for each public function, and more where another method or noise distribution takes another code path;
`COMMANDS` those of the command line. Times are CPU seconds, the minimum of several runs. The processes share a folder of bytecode,
as those of an installed package do.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# Setup of the process, not timed: x, y and the columns are private; p, q and the few rows are public.
PREPARED = """
import time
import numpy as np
import fastpubpriv as f
imported = time.process_time()
import warnings
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
x, p = rng.normal(size=(2000, 3)), rng.normal(size=(40, 3))
y, q = x @ [1.0, 2.0, 3.0], p @ [1.0, 2.0, 3.0]
line, few = rng.normal(size=(2000, 1)), rng.normal(size=(40, 1))
lines, some = np.vstack([x, x + 30.0]), np.vstack([p, p + 30.0])
zcdp, pure, approx, more = f.ZCDP(0.5), f.PureDP(1.0), f.ApproxDP(1, 1e-6), f.ZCDP(20.0)
quiet = {"progress": False}
start = time.process_time()
"""
_PUB, _LABELS = "x_pub=p, **quiet", "x_pub=p, y_pub=q, **quiet"
_LISTED = "f.Hypotheses.from_arrays(np.ones((2, 1)), np.array([0.0, 1.0]).reshape(2, 1, 1), np.ones((2, 1, 1)))"
FUNCTIONS = {
    "estimate_mean": f"f.estimate_mean(x, budget=zcdp, {_PUB})",
    "estimate_mean, pure": f"f.estimate_mean(x, budget=pure, {_PUB})",
    "estimate_mean, clipping='gaussian'": f"f.estimate_mean(x, budget=zcdp, clipping='gaussian', {_PUB})",
    "estimate_mean, covariance='public'": f"f.estimate_mean(x, budget=approx, covariance='public', {_PUB})",
    "quantiles": f"f.quantiles(x, budget=zcdp, {_PUB})",
    "describe": f"f.describe(x, budget=zcdp, {_PUB})",
    "value_counts": "f.value_counts(np.sign(x[:, 0]), keys=[-1, 1], budget=zcdp, **quiet)",
    "estimate_mean, of persons": f"f.estimate_mean(x, person=np.arange(2000) // 4, rows_per_person=1, budget=zcdp, {_PUB})",
    "count_persons": (
        "f.count_persons(__import__('pandas').DataFrame(np.sign(x), columns=['a', 'b', 'c']), by='a', groups=[-1, 1], "
        "person=np.arange(len(x)) // 2, budget=f.ZCDP(rho=0.5))"
    ),
    "value_counts, two columns": (
        "f.value_counts(__import__('pandas').DataFrame(np.sign(x), columns=['a', 'b', 'c']), columns=['a', 'b'], "
        "keys={'a': [-1, 1], 'b': [-1, 1]}, budget=zcdp, **quiet)"
    ),
    "weighted_mean": f"f.weighted_mean(x, budget=zcdp, norm_bound=5.0, variance=3.0, {_PUB})",
    "coinpress_mean": "f.coinpress_mean(x, budget=zcdp, variance=1.0, center=0.0, radius=10.0, **quiet)",
    "coinpress_covariance": "f.coinpress_covariance(x, budget=zcdp, scale=1.0, **quiet)",
    "private_pca": "f.private_pca(x, budget=zcdp, center=0.0, radius=5.0, n_components=2, **quiet)",
    "precondition": "f.precondition(p)",
    "estimate_gaussian": f"f.estimate_gaussian(x, budget=zcdp, {_PUB})",
    **{
        f"estimate_gaussian, {method}": f"f.estimate_gaussian(x, budget=more, method='{method}', {_PUB})"
        for method in ("lifted_coinpress", "pairs", "recursive_preconditioner")
    },
    "estimate_gaussian, group_covariances": (
        f"f.estimate_gaussian(np.tile(x, (40, 1)), budget=f.ApproxDP(40, 1e-3), method='group_covariances', {_PUB})"
    ),
    "estimate_gaussian, hypothesis_selection": (
        "f.estimate_gaussian(line, x_pub=few, budget=pure, method='hypothesis_selection', **quiet)"
    ),
    "stable_histogram": "f.stable_histogram(line, bins=f.BinGrid(width=0.5), budget=approx, **quiet)",
    "stable_histogram, dyadic": "f.stable_histogram(line, bins=f.DyadicBins(), budget=approx, **quiet)",
    "supercluster": "f.supercluster(p, n_components=2)",
    "terrific_ball": "f.terrific_ball(p, min_count=10, radius_max=8.0, radius_min=0.5)",
    "public_only": "f.public_only(some, n_components=2)",
    "no_public_baseline": "f.no_public_baseline(lines, n_components=2, radius=100.0, budget=more, **quiet)",
    **{
        f"learn_separated_mixture, {method}": (
            f"f.learn_separated_mixture(lines, x_pub=some, n_components=2, min_weight=0.3, budget=more, method='{method}', **quiet)"
        )
        for method in ("tree", "one_shot", "public_pca", "soft_em")
    },
    "learn_axis_aligned_mixture, one column": "f.learn_axis_aligned_mixture(line, n_components=1, budget=approx, **quiet)",
    "learn_axis_aligned_mixture, sketch": "f.learn_axis_aligned_mixture(x, n_components=1, budget=approx, **quiet)",
    "learn_axis_aligned_mixture, x_pub": f"f.learn_axis_aligned_mixture(x, n_components=2, budget=zcdp, {_PUB})",
    "learn_axis_aligned_mixture, x_pub, pure": (
        f"f.learn_axis_aligned_mixture(x, n_components=2, budget=pure, {_PUB})"
    ),
    "learn_axis_aligned_mixture, one column, x_pub": (
        "f.learn_axis_aligned_mixture(line, n_components=2, budget=pure, x_pub=line[:20], **quiet)"
    ),
    "learn_axis_aligned_mixture, dp_em": (
        f"f.learn_axis_aligned_mixture(x, n_components=2, budget=zcdp, method='dp_em', {_PUB})"
    ),
    "learn_axis_aligned_mixture, list_decoding": (
        "f.learn_axis_aligned_mixture(np.tile(line, (50, 1)), n_components=1, budget=approx, method='list_decoding',"
        " accuracy=0.3, variance=1.0, **quiet)"
    ),
    "select_hypothesis": f"f.select_hypothesis(line, hypotheses={_LISTED}, budget=pure, **quiet)",
    "linear_regression": f"f.linear_regression(x, y, budget=zcdp, {_LABELS})",
    "logistic_regression": "f.logistic_regression(x, y > 0, x_pub=p, y_pub=q > 0, budget=zcdp, **quiet)",
    "train": f"f.train(x, y, loss='huber', budget=zcdp, {_LABELS})",
    **{
        f"train, {method}": f"f.train(x, y, loss='squared', method='{method}', budget=approx, {_LABELS})"
        for method in ("newton", "throw_away")
    },
    **{
        f"train, {method}": f"f.train(x, y, loss='squared', method=f.training.{method}(), budget=approx, {_LABELS})"
        for method in ("SemiDP", "DPSGD", "MirrorDescent", "Exponential")
    },
    "train, OutputPerturbation": (
        "f.train(x, y > 0, loss='logistic', x_pub=p, y_pub=q > 0, budget=approx, method=f.training.OutputPerturbation(), **quiet)"
    ),
    "train, a loss of one's own": (
        f"f.train(x, y, budget=zcdp, {_LABELS}, loss=f.training.Loss("
        "name='own', residual=lambda a, b: b - a, values=lambda s, l: (s - l) ** 2 / 2))"
    ),
    "training.huber_loss": "f.training.huber_loss(1.0)",
    "local.PrivUnit": "f.local.PrivUnit(20, 4.0).privatize(x[:, :1] * np.ones((1, 20)))",
    "local.PrivUnitG": "f.local.PrivUnitG(20, 4.0).privatize(x[:, :1] * np.ones((1, 20)))",
    "local.SubsetSelection": "f.local.SubsetSelection(20, 4.0).privatize(np.eye(20)[np.arange(2000) % 20])",
    "local.Duchi": "f.local.Duchi(3, 1.0, norm_bound=5.0).privatize(x)",
    "local.estimate_mean": "f.local.estimate_mean(f.local.PrivUnit(3, 4.0, norm_bound=5.0).privatize(x), x_pub=p)",
    "local.mean_error": "f.local.mean_error(f.local.PrivUnit(3, 4.0), n_reports=1000)",
    "local.train": "f.local.train(x, y, epsilon=4.0, clip_norm=5.0, radius=10.0, x_pub=p, y_pub=q)",
    "order_bounds": "f.order_bounds('B.1', dim=5, accuracy=0.1, budget=zcdp, mean_radius=10.0)",
    "plan, mean": "f.plan('mean', n_priv=1000, n_pub=1, dim=5, budget=zcdp)",
    "plan, gaussian": "f.plan('gaussian', n_priv=10_000, n_pub=20, dim=5, budget=zcdp)",
    "plan, train": "f.plan('train', n_priv=1000, n_pub=20, dim=5, budget=zcdp)",
    "Ledger": "f.Ledger(f.ZCDP(1.0)).close()",
    "sources.private_rows": "f.sources.private_rows(x)",
    "MeanResult.summary": f"f.estimate_mean(x, budget=zcdp, {_PUB}).summary()",
    "MeanResult.from_json": f"f.MeanResult.from_json(f.estimate_mean(x, budget=zcdp, {_PUB}).to_json())",
    "GaussianResult.sample": f"f.estimate_gaussian(x, budget=zcdp, {_PUB}).sample(9, random_state=1)",
    "privacy.noise_multiplier_for": "f.privacy.noise_multiplier_for(approx, f.privacy.Poisson(1 / 54), 5000)",
    "auditing.record_replay": (
        "f.auditing.record_replay(lambda x: f.coinpress_mean(x, budget=zcdp, center=0.0, radius=9.0, **quiet).mean.tolist(),"
        " x, np.vstack([x[:-1], x[:1]]), budget=zcdp)"
    ),
    "auditing.audit": (
        "f.auditing.audit(lambda x, runs: x.sum() + rng.laplace(size=runs), np.ones(3), np.zeros(3), claim=pure, runs=1000)"
    ),
    "auditing.audit_by_tracing": (
        "f.auditing.audit_by_tracing(lambda x: x.mean(axis=0) + rng.normal(size=50) * 0.1, claim=approx, n_priv=50, dim=50,"
        " error=0.5, runs=20)"
    ),
    "auditing.tracing_attack": (
        "f.auditing.tracing_attack(np.ones((5, 3)), released=np.zeros(3), theta=np.zeros(3), error=0.5)"
    ),
    "auditing.clopper_pearson": "f.auditing.clopper_pearson(9, 100)",
    "auditing.audit_weighted_mean": "f.auditing.audit_weighted_mean(pure, runs=100)",
    "auditing.audit_randomizer": "f.auditing.audit_randomizer(f.local.PrivUnit(5, 1.0), runs=2000)",
    "auditing.epsilon_lower_bound": "f.auditing.epsilon_lower_bound(90, 100, 10, 100)",
    "warmup": "f.warmup()",
}
# Compiled by Numba; all other loops are C.
COMPILED = {"train, a loss of one's own"}
MOST, MOST_UNCOMPILED = 1.0, 0.35
# calls that are in the table of speed
SHOWN = (
    "estimate_mean",
    "linear_regression",
    "train, a loss of one's own",
    "supercluster",
)
# Commands, run in a folder that has the files of `write_tables`.
_TABLES = "--private x.csv --public p.csv"
COMMANDS = {
    "--version": "--version",
    "info": "info",
    "mean": f"mean {_TABLES} --rho 0.5",
    "quantiles": f"quantiles {_TABLES} --rho 0.5",
    "describe": f"describe {_TABLES} --rho 0.5",
    "gaussian": f"gaussian {_TABLES} --rho 0.5",
    "mixture": f"mixture {_TABLES} --components 1 --min-weight 0.5 --rho 0.5",
    "axis-mixture": "axis-mixture --private line.csv --columns a --components 1 --epsilon 1 --delta 1e-6",
    "weighted-mean": f"weighted-mean {_TABLES} --norm-bound 5 --rho 0.5",
    "coinpress-mean": "coinpress-mean --private x.csv --columns a,b,c --center 0 --radius 10 --rho 0.5",
    "histogram": "histogram --private line.csv --columns a --width 0.5 --epsilon 1 --delta 1e-6",
    "counts": "counts --private line.csv --columns a --keys 0,1 --rho 0.5",
    "persons": "persons --private x.csv --person c --by a --groups 0,1 --rho 0.5",
    "ledger": "ledger x.ledger",
    "train": f"train {_TABLES} --label c --loss squared --rho 0.5 --json model.json",
    "predict": "predict --model model.json --rows p.csv --out -",
    "local privatize": "local privatize --private x.csv --columns a,b,c --epsilon 4 --norm-bound 5 --out reports.fpp",
    "local aggregate": "local aggregate reports.fpp --dim 3 --epsilon 4 --norm-bound 5",
    "plan mean": "plan mean --dim 5 --n-pub 20 --n-priv 10000 --rho 0.5",
}


def goal_of(name: str) -> float:
    """Return the limit on the CPU seconds of the first call of a function."""
    return MOST if name in COMPILED else MOST_UNCOMPILED


def seconds(code: str, folder: Path) -> tuple[float, float]:
    """Return CPU seconds of a fresh process: of its imports, and of the call after them."""
    program = f"{PREPARED}{code}\nprint(imported, time.process_time() - start)"
    first, call = _run([sys.executable, "-c", program], folder).split()
    return float(first), float(call)


def command_seconds(arguments: Sequence[str], folder: Path) -> float:
    """Return CPU seconds of a command, including the start of Python and all imports."""
    if "--out" in arguments:  # an existing file of reports is not overwritten
        (folder / arguments[arguments.index("--out") + 1]).unlink(missing_ok=True)
    before = _of_children()
    _run([sys.executable, "-c", "from fastpubpriv.cli import main; main()", *arguments], folder)
    return _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(command: Sequence[str], folder: Path) -> str:
    # BLAS threads busy-wait, which would count as CPU time.
    given = {
        **os.environ,
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "OPENBLAS_NUM_THREADS": "1",
    }
    given.pop("PYTHONDONTWRITEBYTECODE", None)
    path = [str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**given, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[-1].splitlines()[-2:]}: {done.stderr.strip()[-500:]}")
    return done.stdout


def write_tables(folder: Path) -> None:
    """Write the small tables, and the ledger, that the commands read."""
    import numpy as np

    import fastpubpriv as fpp

    fpp.Ledger(fpp.ZCDP(1), path=folder / "x.ledger").close()
    rng = np.random.default_rng(0)
    for name, n in (("x", 2000), ("p", 40)):
        np.savetxt(
            folder / f"{name}.csv",
            rng.normal(size=(n, 3)),
            delimiter=",",
            header="a,b,c",
            comments="",
        )
    np.savetxt(folder / "line.csv", rng.normal(size=2000), header="a", comments="")

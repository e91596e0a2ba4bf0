"""A class for scikit-learn and a command of the command line give the bits of the call of the library with the same seed."""

import json
import warnings

import pytest
from click.testing import CliRunner

import fastpubpriv as fpp
from fastpubpriv import sklearn as classes
from fastpubpriv.cli import estimators, main
from tests.truth import engine
from tests.truth.arguments import CLASSES_OF
from tests.truth.populations import drawn

SEED = 5
RHO = fpp.ZCDP(0.1)
APPROX = ("--epsilon", "1", "--delta", "1e-6")
GROUPS = ["a", "b"]
KIND = ["plain", "odd", "rare"]


@pytest.fixture(autouse=True)
def quiet():
    """Nothing is asserted about warnings."""
    with warnings.catch_warnings(action="ignore"):
        yield


# ---- scikit-learn ----------------------------------------------------------------------------------------------------
FITS = {
    "PublicPrivateGaussian": ({"structure": "full"}, {"structure": "full"}),
    "PublicPrivateGaussianMixture": ({"n_components": 3}, {"n_components": 3}),
    "PublicPrivateScaler": ({}, {"structure": "diagonal"}),
    "SemiPrivatePCA": ({"n_components": 1}, {}),
    "SemiPrivateLinearRegression": ({"tails": "light"}, {"tails": "light"}),
    "SemiPrivateLogisticRegression": (
        {"class_weight": {0.0: 1.0, 1.0: 3.0}}, {"class_weight": {0.0: 1.0, 1.0: 3.0}, "classes": (0.0, 1.0)},
    ),
}  # fmt: skip


def rows_of(name):
    """Columns, and the label of a model or None."""
    columns = ["m1", "m2"] if "Mixture" in name else ["x", "v"]
    label = {"SemiPrivateLinearRegression": "y", "SemiPrivateLogisticRegression": "yes"}.get(name)
    return columns, label


@pytest.mark.parametrize("name", classes.__all__)
def test_a_class_has_the_bits_of_its_function(name):
    own, of_function = FITS[name]
    columns, label = rows_of(name)
    tables = drawn("light", 2_000, 0)
    fit = [tables.private[columns]]
    call = {"x_pub": tables.public[columns], **of_function}
    more = {}
    if label is not None:
        fit.append(tables.private[label])
        more["y_pub"] = tables.public[label]
        call |= {
            "y_priv": tables.private[label].to_numpy(),
            "y_pub": tables.public[label].to_numpy(),
        }

    model = getattr(classes, name)(RHO, random_state=SEED, **own).fit(
        *fit, X_pub=tables.public[columns], **more
    )
    result = getattr(fpp, CLASSES_OF[name])(
        tables.private[columns], budget=RHO, random_state=SEED, **call
    )

    assert engine.bits(model.result_) == engine.bits(result)


# ---- The command line ------------------------------------------------------------------------------------------------
# Options and arguments of each command beside the files, columns, budget and seed.
COMMANDS = {
    "mean": (("--bounds", "0,200"), {"bounds": (0.0, 200.0)}),
    "describe": (("--top", "2"), {"top": 2}),
    "quantiles": (("--q", "0.1,0.9"), {"q": (0.1, 0.9)}),
    "gaussian": (("--structure", "diagonal"), {"structure": "diagonal"}),
    "mixture": (("--components", "3"), {"n_components": 3}),
    "axis-mixture": (("--components", "3"), {"n_components": 3}),
    "weighted-mean": (("--norm-bound", "5", "--center", "0"), {"norm_bound": 5.0, "center": 0.0}),
    "coinpress-mean": (("--radius", "5", "--center", "0"), {"radius": 5.0, "center": 0.0}),
    "histogram": (("--width", "0.5"), {"bins": fpp.BinGrid(width=0.5)}),
    "counts": (("--columns", "g", "--keys", "a,b"), {"columns": "g", "keys": GROUPS}),
    "persons": (
        ("--person", "id", "--by", "g", "--groups", "a,b"),
        {"person": "id", "by": "g", "groups": GROUPS},
    ),
    "train": (("--label", "yes", "--loss", "logistic"), {"label": "yes", "loss": "logistic"}),
}  # fmt: skip
PRIVATE_ALONE = ("weighted-mean", "coinpress-mean", "histogram", "counts", "persons")


def columns_of(command):
    """Columns that a command is asked for; none where an option of its own names them."""
    if command in ("counts", "persons"):
        return []
    return {"mixture": ["m1", "m2"], "axis-mixture": ["m1", "m2"], "describe": ["u", "kind"]}.get(
        command, ["x", "v"]
    )


def in_print(result):
    """The JSON text of a result, without what the command line adds."""
    data = json.loads(result.to_json())
    return {name: value for name, value in data.items() if name != "private"}


@pytest.mark.parametrize("command", [each.name for each in estimators.COMMANDS])
def test_a_command_has_the_bits_of_its_function(command, tmp_path):
    options, more = COMMANDS[command]
    columns = columns_of(command)
    tables = drawn("light", 2_000, 0)
    needed = [*dict.fromkeys([*columns, "g", "kind", "yes", "id"])]
    given = ["--private", str(tmp_path / "d.parquet"), "--json", "-", "--seed", str(SEED), *options]
    tables.private[needed].to_parquet(tmp_path / "d.parquet")
    tables.public[needed].to_parquet(tmp_path / "p.parquet")
    approx = command in ("axis-mixture", "histogram")
    given += APPROX if approx else ("--rho", "0.1")
    given += () if command in PRIVATE_ALONE else ("--public", str(tmp_path / "p.parquet"))
    call = {"budget": fpp.ApproxDP(1, 1e-6) if approx else RHO, "random_state": SEED, **more}
    call |= {} if command in PRIVATE_ALONE else {"x_pub": tables.public[needed]}
    if columns:
        given += ("--columns", ",".join(columns))
        call["columns"] = columns
    function = next(each for each in estimators.COMMANDS if each.name == command)._made[1]

    said = CliRunner().invoke(main, [command, *given])
    assert said.exit_code == 0, said.output
    wanted = in_print(getattr(fpp, function)(tables.private[needed], **call))
    printed = json.loads(said.stdout)

    assert {name: printed[name] for name in wanted} == wanted

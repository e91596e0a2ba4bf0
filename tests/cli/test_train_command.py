"""`fastpubpriv train` and `predict`."""

import json

import numpy as np
import pandas as pd
import pytest
from command_cases import runner

import fastpubpriv as fpp
from fastpubpriv.cli.train import spoken

train, predict = runner("train"), runner("predict")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8200, 2)) * [1.0, 20.0]
    month = rng.integers(1, 4, 8200)
    table = pd.DataFrame({"cost": x @ [2.0, 0.1] + month + rng.normal(size=8200), "age": x[:, 0], "dose": x[:, 1]})
    table["month"], table["ill"], table["name"] = month, (table.cost > 2).astype(int), "Alice-SSN-123"
    table.iloc[200:].to_parquet(tmp_path / "private.parquet")
    table.iloc[200:].to_csv(tmp_path / "private.csv", index=False)
    table.iloc[:200].to_csv(tmp_path / "public.csv", index=False)
    np.save(tmp_path / "private.npy", table[["age", "dose", "cost"]].to_numpy()[200:])
    np.save(tmp_path / "public.npy", table[["age", "dose", "cost"]].to_numpy()[:200])
    table[["dose", "age", "month"]].iloc[:5].to_csv(tmp_path / "new.csv", index=False)
    return tmp_path, table


def arguments(folder, suffix, *more, public="public.csv"):
    return "--private", folder / f"private.{suffix}", "--public", folder / public, *more


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_model_of_a_number_and_its_predictions(files, suffix):
    folder, table = files
    result = train(
        *arguments(folder, suffix, "--label", "cost", "--columns", "age,dose,month", "--categories", "month"),
        *("--epsilon", "2", "--delta", "1e-6", "--json", folder / "model.json", "--plot", folder / "model.png"),
    )
    assert "month=2" in result.stdout
    assert "Alice" not in result.output
    model = json.loads((folder / "model.json").read_text())
    assert model["coefficients"][:2] == pytest.approx([2.0, 0.1], abs=0.1)
    assert model["columns"] == ["age", "dose", "month"]
    assert model["private"] is True
    assert (folder / "model.png").read_bytes().startswith(b"\x89PNG")
    predict("--model", folder / "model.json", "--rows", folder / "new.csv", "--out", folder / "out.csv")
    found = pd.read_csv(folder / "out.csv").label
    wanted = table.age * 2 + table.dose * 0.1 + table.month
    assert found.to_numpy() == pytest.approx(wanted[:5], abs=0.5)
    predict(
        "--model", folder / "model.json", "--rows", folder / "new.csv", "--out", folder / "out.csv", "--level", "0.9"
    )
    ends = pd.read_csv(folder / "out.csv")
    assert list(ends) == ["label", "lower", "upper"]
    assert (ends.upper - ends.lower).to_numpy() == pytest.approx(2 * 1.645, rel=0.3)
    refused = predict(
        "--model", folder / "model.json", "--rows", folder / "new.csv", "--out", "-", "--level", "2", code=2
    )
    assert "level" in refused.stderr


def test_text_that_is_left_out_or_refused_says_how_it_is_read(files):
    folder, _ = files
    kept = train(*arguments(folder, "parquet", "--label", "cost", "--rho", "0.5"))
    assert "not numeric: name (columns of text are read with --categories" in " ".join(kept.stderr.split())
    for more in (("--columns", "age,name"), ("--columns", "name", "--categories", "month")):
        refused = train(*arguments(folder, "parquet", "--label", "cost", "--rho", "0.5", *more), code=2)
        assert "such as --categories" in " ".join(refused.stderr.split())
    refused = train(*arguments(folder, "parquet", "--label", "name", "--columns", "age", "--rho", "0.5"), code=2)
    assert "pass --loss logistic" in " ".join(refused.stderr.split())


def test_a_model_of_classes(files):
    folder, _ = files
    given = [
        "--label",
        "ill",
        "--columns",
        "age,dose,month",
        "--loss",
        "logistic",
        "--rho",
        "0.5",
        "--method",
        "newton",
    ]
    train(*arguments(folder, "parquet", *given, "--json", folder / "model.json", "-q"))
    result = predict("--model", folder / "model.json", "--rows", folder / "new.csv", "--out", "-")
    head, *lines = result.stdout.splitlines()
    assert head == "label,probability of 1"
    for line in lines:
        label, chance = map(float, line.split(","))
        assert (label == 1.0) == (chance > 0.5)


def test_what_is_stated_of_columns_and_labels_reaches_the_model(files, monkeypatch):
    folder, _ = files
    seen = {}

    def spy(rows, **given):
        seen.update(given)
        return fpp_train(rows, **given)

    fpp_train = fpp.train
    monkeypatch.setattr(fpp, "train", spy)
    more = ("--rho", "0.5", "--columns", "age,dose,month", "--json", folder / "model.json", "-q")
    train(
        *arguments(
            folder, "parquet", "--label", "cost", "--categories", "month=1:2:3", "--x-bounds", "age=-9:9", *more
        ),
        *("--y-bounds", "-50,50", "--y-scale", "2"),
    )
    assert seen["categories"] == {"month": [1.0, 2.0, 3.0]}
    assert seen["x_bounds"] == {"age": (-9.0, 9.0)}
    assert (seen["y_bounds"], seen["y_scale"]) == ((-50.0, 50.0), 2.0)
    logistic = ("--loss", "logistic", "--label", "ill", "--classes", "0,1", *more)
    train(*arguments(folder, "parquet", *logistic, "--class-weight", "0=1,1=5"))
    assert (seen["classes"], seen["class_weight"]) == ((0.0, 1.0), {0.0: 1.0, 1.0: 5.0})
    train(*arguments(folder, "parquet", *logistic, "--class-weight", "public"))
    assert seen["class_weight"] == "public"


def test_npy_files_have_the_label_last(files):
    folder, _ = files
    result = train(*arguments(folder, "npy", "--rho", "0.5", public="public.npy"))
    assert "newton" in result.stdout
    assert "x1" in result.stdout


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--rho", "0.5"), "--label"),
        (("--rho", "0.5", "--label", "name"), "'name'"),
        (("--label", "cost"), "no privacy budget"),
        (("--label", "cost", "--rho", "0.5", "--method", "x"), "sufficient_statistics"),
        (("--label", "cost", "--rho", "0.5", "--loss", "logistic"), "two are needed"),
        (("--label", "cost", "--rho", "0.5", "--categories", "zebra"), "zebra"),
        (("--label", "cost", "--rho", "0.5", "--columns", "dose", "--categories", "age"), "leaves it out"),
        (
            ("--label", "ill", "--rho", "0.5", "--loss", "logistic", "--class-weight", "balanced"),
            "count the private labels",
        ),
        (
            ("--label", "ill", "--rho", "0.5", "--loss", "logistic", "--class-weight", "smote"),
            "resampling is not offered",
        ),
        *(
            (("--label", "cost", "--rho", "0.5", *extra.split()), message)
            for extra, message in (
                ("--x-bounds age=auto", "must look like age=0:120"),
                ("--y-bounds auto", "two numbers"),
                ("--weights-priv age", "needs --weight-cap"),
                ("--weight-cap 2", "belongs to --weights-priv"),
                ("--method semi_dp --weights-pub age", "or leave them out"),
                ("--loss huber --huber-threshold nan", "threshold"),
                ("--loss hinge", "smooth_hinge"),
                ("--classes 0,1", "belongs to a loss of classes"),
                ("--method output_perturbation", "whose gradients are bounded"),
            )
        ),
    ],
)
def test_refusals(files, extra, message):
    """Words that say what to pass, no traceback, and nothing debited."""
    folder, _ = files
    ledger = folder / "budget.ledger"
    extra = (*extra, "--ledger", ledger, "--ledger-total", "rho=1")
    result = train(*arguments(folder, "parquet", *extra), code=2)
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    if ledger.exists():
        with fpp.Ledger.from_file(str(ledger)) as book:
            assert not book.entries


def test_predict_refuses_what_is_no_model(files):
    folder, _ = files
    (folder / "wrong.json").write_text("[1]")
    for model, words in (("wrong.json", "not a model"), ("nothing.json", "not a model"), ("public.csv", "not a model")):
        result = predict("--model", folder / model, "--rows", folder / "new.csv", "--out", folder / "o.csv", code=2)
        assert words in " ".join(result.stderr.split())
    result = predict("--model", folder / "m.json", "--rows", folder / "new.csv", "--out", folder / "new.csv", code=2)
    assert "also one of the files" in " ".join(result.stderr.split())


def test_text_in_columns_and_classes(files):
    folder, table = files
    carrier = np.array(["AA", "B6", "DL"])[table.month - 1]
    table = table.assign(carrier=carrier, state=np.where(table.ill == 1, "ill", "well, or so"))
    table.loc[210:220, "carrier"] = "only private"
    for suffix, write in (("csv", "to_csv"), ("parquet", "to_parquet")):
        getattr(table.iloc[200:], write)(folder / f"private.{suffix}", index=False)
    table.iloc[:200].to_csv(folder / "public.csv", index=False)
    table[["carrier", "dose", "age"]].iloc[:5].to_csv(folder / "new.csv", index=False)
    given = [
        "--columns",
        "age,dose,carrier",
        "--label",
        "state",
        "--loss",
        "logistic",
        "--method",
        "newton",
        "--rho",
        "0.5",
    ]
    models = []
    for suffix, categories in (("csv", "carrier"), ("parquet", "carrier=AA:B6:DL")):
        more = ("--categories", categories, "--json", folder / "model.json", "--seed", "1", "-q")
        train(*arguments(folder, suffix, *given, *more))
        models.append(json.loads((folder / "model.json").read_text()))
    assert models[0]["coefficients"] == models[1]["coefficients"]
    assert models[0]["terms"] == ["age", "dose", "carrier=AA", "carrier=B6", "carrier=DL"]
    assert models[0]["design"]["classes"] == ["ill", "well, or so"]
    predict("--model", folder / "model.json", "--rows", folder / "new.csv", "--out", folder / "out.csv")
    found = pd.read_csv(folder / "out.csv")
    assert set(found.label) <= {"ill", "well, or so"}
    assert ((found["probability of well, or so"] > 0.5) == (found.label == "well, or so")).all()


def test_other_losses_and_methods(files):
    folder, _ = files
    given = ("--columns", "age,dose", "--rho", "0.5", "--json", folder / "model.json", "-q")
    train(*arguments(folder, "parquet", *given, "--label", "cost", "--loss", "huber", "--huber-threshold", "2"))
    assert json.loads((folder / "model.json").read_text())["loss"] == "huber"
    result = predict("--model", folder / "model.json", "--rows", folder / "new.csv", "--out", "-")
    assert result.stdout.split()[0] == "label"
    train(*arguments(folder, "parquet", *given, "--label", "month", "--loss", "softmax"))
    result = predict("--model", folder / "model.json", "--rows", folder / "new.csv", "--out", "-")
    head, *lines = result.stdout.split()
    assert head == "label,probability"
    assert all(float(line.split(",")[1]) >= 1 / 3 for line in lines)
    refused = train(*arguments(folder, "parquet", *given, "--label", "cost", "--huber-threshold", "2"), code=2)
    assert "--huber-threshold belongs to" in refused.stderr
    plot = ("--label", "ill", "--loss", "smooth_hinge", "--plot", folder / "p.png")
    assert "--plot" in train(*arguments(folder, "parquet", *given, *plot), code=2).stderr


def test_weights_of_public_rows(files):
    folder, table = files
    table.iloc[:200].assign(count=np.arange(200) % 3).to_csv(folder / "public.csv", index=False)
    np.save(folder / "weights.npy", np.arange(200) % 3)
    found = []
    for weights in ("count", folder / "weights.npy"):
        given = ("--label", "cost", "--columns", "age,dose", "--weights-pub", weights, "--seed", "1")
        train(*arguments(folder, "csv", *given, "--rho", "0.5", "--json", folder / "model.json", "-q"))
        found.append(json.loads((folder / "model.json").read_text())["coefficients"])
    assert found[0] == found[1]


REFUSED = {
    "--label month --loss logistic": "--classes a,b, or --loss softmax for more",
    "--label month --loss softmax --method newton": "--method newton is for the squared",
    "--label ill --loss logistic --classes 0,1,2": "--classes must be two, got 3: pass two, or --loss softmax",
    "--label ill --loss logistic --class-weight balanced": "--class-weight balanced would count the private labels",
    "--label ill --loss logistic --class-weight 0=-1,1=2": "--class-weight of 0 must be above 0",
    "--label ill --loss logistic --y-bounds 0,1": "--y-bounds belongs to labels that are numbers",
    "--label cost --classes 0,1": "--classes belongs to a loss of classes",
    "--label cost --y-bounds 0,0.1": "beyond --y-bounds: pass wider bounds",
    "--label cost --x-bounds age=0:0.1": "beyond --x-bounds: pass wider bounds",
    "--label cost --x-bounds age=1:1": "--x-bounds of 'age'",
    "--label cost --weights-priv month": "--weights-priv needs --weight-cap",
    "--label cost --weight-cap 2": "--weight-cap belongs to --weights-priv",
    "--label cost --method output_perturbation": "pass --loss huber, logistic or smooth_hinge",
    "--label cost --method semi_dp --weights-pub month": "pass --loss squared, huber or logistic with --method newton",
}


@pytest.mark.parametrize("words", REFUSED)
def test_errors_speak_of_options(files, words):
    folder, _ = files
    given = (*arguments(folder, "csv", "--columns", "age,dose"), "--epsilon", "1", "--delta", "1e-6", *words.split())
    said = " ".join(train(*given, code=2).stderr.split())
    assert REFUSED[words] in said
    python = ("=[", "loss=", "method=", "classes=", "class_weight", "weights_", "weight_cap", "x_bounds", "y_bounds")
    assert not [name for name in python if name in said]


def test_what_a_message_quotes_stays_as_it_is():
    assert (
        spoken("column 'class_weight' of x_pub: pass weight_cap=")
        == "column 'class_weight' of --public: pass --weight-cap"
    )
    said = spoken("every public gradient is zero: pass clip_norm=, the length of a gradient that matters")
    assert "in Python" in said


def test_a_model_with_an_unknown_field_is_named(files):
    folder, _ = files
    train(
        *arguments(folder, "csv", "--label", "cost", "--columns", "age,dose"),
        *("--epsilon", "2", "--delta", "1e-6", "--json", folder / "model.json"),
    )
    text = (folder / "model.json").read_text()
    (folder / "other.json").write_text(text.replace('"terms"', '"words"'))
    said = predict("--model", folder / "other.json", "--rows", folder / "new.csv", "--out", "-", code=2).stderr
    assert "--model" in said
    assert "'words'" in said
    said = predict(
        "--model", folder / "model.json", "--rows", folder / "new.csv", "--out", "-", "--level", "2", code=2
    ).stderr
    assert "--level must be" in said

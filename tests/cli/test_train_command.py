"""`fastpubpriv train` and `predict`."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_cases import runner, said

import fastpubpriv as fpp
from fastpubpriv.cli.spoken import spoken

MODEL = "--json model.json -q"


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    """The rows of all files, which are in the folder of the moment: 200 public ones, and the private ones."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8200, 2)) * [1.0, 20.0]
    month = rng.integers(1, 4, 8200)
    cost = x @ [2.0, 0.1] + month + rng.normal(size=8200)
    table = pd.DataFrame({"cost": cost, "age": x[:, 0], "dose": x[:, 1]})
    table["month"] = month
    table["ill"] = (table.cost > 2).astype(int)
    table["name"] = "Alice-SSN-123"
    write(table, ["dose", "age", "month"])
    np.save("private.npy", table[["age", "dose", "cost"]].to_numpy()[200:])
    np.save("public.npy", table[["age", "dose", "cost"]].to_numpy()[:200])
    return table


def write(table, features):
    table.iloc[200:].to_parquet("private.parquet")
    table.iloc[200:].to_csv("private.csv", index=False)
    table.iloc[:200].to_csv("public.csv", index=False)
    table[features].iloc[:5].to_csv("new.csv", index=False)


def train(suffix, words, code=0):
    public = "public.npy" if suffix == "npy" else "public.csv"
    return runner("train")(
        "--private", f"private.{suffix}", "--public", public, *words.split(), code=code
    )


def predict(words="--out -", code=0, model="model.json"):
    return runner("predict")("--model", model, "--rows", "new.csv", *words.split(), code=code)


def model():
    return json.loads(Path("model.json").read_text())


def without_what_is_derived(data):
    """The fields of the result, without what the command line adds to them."""
    return {name: x for name, x in data.items() if name not in ("warnings", "confidence_interval")}


def test_a_model_of_a_number_and_its_predictions(table):
    # The label and a category need not be named twice.
    features = "--label cost --columns age,dose,cost --categories month"
    result = train(
        "parquet", f"{features} --epsilon 2 --delta 1e-6 --json model.json --plot model.png"
    )
    assert "month=2" in result.stdout
    assert "Alice" not in result.output
    assert model()["columns"] == ["age", "dose", "month"]
    assert model()["private"] is True
    assert Path("model.png").read_bytes().startswith(b"\x89PNG")
    predict("--out out.csv")
    saved = fpp.TrainingResult.from_json(json.dumps(without_what_is_derived(model())))
    rows = pd.read_csv("new.csv")
    assert pd.read_csv("out.csv").label.to_numpy() == pytest.approx(saved.predict(rows))
    predict("--out out.csv --level 0.9")
    found = pd.read_csv("out.csv")
    lower, upper = saved.prediction_interval(rows, 0.9)
    assert list(found) == ["label", "lower", "upper"]
    assert found.lower.to_numpy() == pytest.approx(lower)
    assert found.upper.to_numpy() == pytest.approx(upper)
    assert "--level must be" in said(predict("--out - --level 2", code=2))


def test_the_number_of_rows_of_each_person_is_chosen(table):
    write(table.assign(id=np.arange(len(table)) // 8), ["age"])
    words = "--label cost --columns age,dose --rho 1 --person id --rows-per-person auto"
    for more in ("", " --categories ill"):
        train("parquet", f"{words}{more} {MODEL}")
        assert model()["rows_per_person"] > 1
        assert model()["releases"][0]["name"] == "rows per person"


def test_text_that_is_left_out_or_refused_says_how_it_is_read():
    kept = said(train("parquet", "--label cost --rho 0.5"))
    assert "not numeric: name (columns of text are read with --categories" in kept
    for more in ("--columns age,name", "--columns name --categories month"):
        assert "such as --categories" in said(
            train("parquet", f"--label cost --rho 0.5 {more}", code=2)
        )
    assert "pass --loss logistic" in said(
        train("parquet", "--label name --columns age --rho 0.5", code=2)
    )


def test_a_model_of_classes():
    train(
        "parquet",
        f"--label ill --columns age,dose,month --loss logistic --rho 0.5 --method newton {MODEL}",
    )
    head, *lines = predict().stdout.splitlines()
    assert head == "label,probability of 1"
    for line in lines:
        label, chance = map(float, line.split(","))
        assert (label == 1.0) == (chance > 0.5)


def test_what_is_stated_of_columns_and_labels_reaches_the_model(monkeypatch):
    seen = {}
    fpp_train = fpp.train

    def spy(rows, **given):
        seen.update(given)
        return fpp_train(rows, **given)

    monkeypatch.setattr(fpp, "train", spy)
    more = f"--rho 0.5 --columns age,dose,month {MODEL}"
    numbers = "--categories month=1:2:3 --x-bounds age=-9:9 --y-bounds -50,50 --y-scale 2"
    train("parquet", f"--label cost {numbers} {more}")
    assert seen["categories"] == {"month": [1.0, 2.0, 3.0]}
    assert seen["x_bounds"] == {"age": (-9.0, 9.0)}
    assert seen["y_bounds"] == (-50.0, 50.0)
    assert seen["y_scale"] == 2.0
    logistic = f"--loss logistic --label ill --classes 0,1 {more}"
    train("parquet", f"{logistic} --class-weight 0=1,1=5")
    assert seen["classes"] == (0.0, 1.0)
    assert seen["class_weight"] == {0.0: 1.0, 1.0: 5.0}
    train("parquet", f"{logistic} --class-weight public")
    assert seen["class_weight"] == "public"


def test_npy_files_have_the_label_last():
    result = train("npy", "--rho 0.5")
    assert "newton" in result.stdout
    assert "x1" in result.stdout


COST = "--rho 0.5 --label cost"
ILL = "--rho 0.5 --label ill --loss logistic"
MONTH = "--rho 0.5 --label month"
REFUSED = {
    "--rho 0.5": "--label",
    "--rho 0.5 --label name": "'name'",
    "--label cost": "no privacy budget",
    f"{COST} --method x": "throw_away",
    f"{COST} --loss logistic": "two are needed",
    f"{COST} --categories zebra": "zebra",
    f"{COST} --columns dose --categories zebra": "zebra",
    f"{COST} --columns dose --categories month --reference month=7": "--reference names a level '7' of 'month'",
    f"{COST} --columns dose --reference month=1": "name it in --categories as well",
    f"{COST} --reference month": "must look like carrier=UA, once for each column",
    f"{ILL} --class-weight smote": "resampling is not offered",
    f"{COST} --x-bounds age=auto": "must look like age=0:120",
    f"{COST} --y-bounds auto": "two numbers",
    f"{COST} --loss huber --huber-threshold nan": "threshold",
    f"{COST} --huber-threshold 2": "--huber-threshold belongs to",
    f"{COST} --loss hinge": "smooth_hinge",
    f"{MONTH} --loss logistic": "--classes a,b, or --loss softmax for more",
    f"{MONTH} --loss poisson --method newton": "--method newton is for the squared",
    f"{ILL} --classes 0,1,2": "--classes must be two, got 3: pass two, or --loss softmax",
    f"{ILL} --class-weight balanced": "--class-weight balanced would count the private labels",
    f"{ILL} --class-weight 0=-1,1=2": "--class-weight of 0 must be above 0",
    f"{ILL} --y-bounds 0,1": "--y-bounds belongs to labels that are numbers",
    f"{COST} --classes 0,1": "--classes belongs to a loss of classes",
    f"{COST} --y-bounds 0,0.1": "beyond --y-bounds: pass wider bounds",
    f"{COST} --x-bounds age=0:0.1": "beyond --x-bounds: pass wider bounds",
    f"{COST} --x-bounds age=1:1": "--x-bounds of 'age'",
    f"{COST} --columns age --weights-priv month": "--weights-priv needs --weight-cap",
    f"{COST} --weight-cap 2": "--weight-cap belongs to --weights-priv",
    f"{COST} --method output_perturbation": "whose gradients are bounded",
    f"{COST} --method output_perturbation --quiet --json m.json": "pass --loss huber, logistic or smooth_hinge",
    f"{COST} --columns age --method semi_dp --weights-pub month": "pass --loss squared, huber or logistic with --method newton",
}
PYTHON = (
    "=[",
    "loss=",
    "method=",
    "classes=",
    "class_weight",
    "weights_",
    "weight_cap",
    "x_bounds",
    "y_bounds",
)


@pytest.mark.parametrize("words", REFUSED)
def test_refusals_speak_of_options(words):
    """Words that say what to pass on the command line, no traceback, and nothing debited."""
    text = said(train("parquet", f"{words} --ledger budget.ledger --ledger-total rho=1", code=2))
    assert REFUSED[words] in text
    assert not [name for name in PYTHON if name in text]
    if Path("budget.ledger").exists():
        with fpp.Ledger.from_file("budget.ledger") as book:
            assert not book.entries


def test_predict_refuses_what_is_no_model():
    Path("wrong.json").write_text("[1]")
    for name in ("wrong.json", "nothing.json", "public.csv"):
        assert "not a model" in said(predict("--out o.csv", code=2, model=name))
    assert "also one of the files" in said(predict("--out new.csv", code=2))
    # A model with an unknown field is named.
    train("csv", f"--label cost --columns age,dose --epsilon 2 --delta 1e-6 {MODEL}")
    Path("other.json").write_text(Path("model.json").read_text().replace('"terms"', '"words"'))
    text = said(predict(code=2, model="other.json"))
    assert "--model" in text
    assert "'words'" in text


def test_text_in_columns_and_classes(table):
    carrier = np.array(["AA", "B6", "DL"])[table.month - 1]
    table = table.assign(carrier=carrier, state=np.where(table.ill == 1, "ill", "well, or so"))
    table.loc[210:220, "carrier"] = "only private"
    write(table, ["carrier", "dose", "age"])
    given = "--columns age,dose,carrier --label state --loss logistic --method newton --rho 0.5 --seed 1"
    models = []
    for suffix, categories in (("csv", "carrier"), ("parquet", "carrier=AA:B6:DL")):
        train(suffix, f"{given} --categories {categories} {MODEL}")
        models.append(model())
    assert models[0]["coefficients"] == models[1]["coefficients"]
    assert models[0]["terms"] == ["age", "dose", "carrier=AA", "carrier=B6", "carrier=DL"]
    assert models[0]["design"]["classes"] == ["ill", "well, or so"]
    predict("--out out.csv")
    found = pd.read_csv("out.csv")
    assert set(found.label) <= {"ill", "well, or so"}
    assert ((found["probability of well, or so"] > 0.5) == (found.label == "well, or so")).all()


def test_levels_are_differences_from_a_reference(table):
    """A level may have an equals sign; --categories once for each column is the same as a list of them."""
    carrier = np.resize(["A=A", "B6", "DL", "UA", "WN"], len(table))
    write(table.assign(carrier=carrier), ["carrier", "dose", "month"])
    given = "--columns dose --label cost --rho 0.5 --seed 1 --json model.json --plot plot.png"
    given += " --reference carrier=A=A --reference month=2"
    models = []
    for categories in ("--categories carrier,month", "--categories carrier --categories month"):
        shown = train("csv", f"{given} {categories}").stdout
        models.append(model())
    assert models[0] == models[1]
    assert "levels of carrier: difference from carrier=A=A" in " ".join(shown.split())
    assert models[0]["design"]["reference"] == {"carrier": "A=A", "month": "2"}
    coefficients = dict(zip(models[0]["terms"], models[0]["coefficients"], strict=True))
    zero = [term for term, value in coefficients.items() if value == 0.0]
    assert zero == ["carrier=A=A", "month=2"]


def test_a_plot_of_a_model_without_intervals():
    """ "auto" may choose a gradient method, which is known once the files are read."""
    train("csv", "--columns age,dose --label ill --loss smooth_hinge --rho 0.5 --plot plot.png -q")
    assert Path("plot.png").stat().st_size > 5000


def test_other_losses():
    given = f"--columns age,dose --rho 0.5 {MODEL}"
    train("parquet", f"{given} --label cost --loss huber --huber-threshold 2")
    assert model()["loss"] == "huber"
    assert predict().stdout.split()[0] == "label"
    train("parquet", f"{given} --label month --loss softmax")
    head, *lines = predict().stdout.split()
    assert head == "label,probability"
    assert all(float(line.split(",")[1]) >= 1 / 3 for line in lines)


def test_weights_of_public_rows(table):
    table.iloc[:200].assign(count=np.arange(200) % 3).to_csv("public.csv", index=False)
    np.save("weights.npy", np.arange(200) % 3)
    found = []
    for weights in ("count", "weights.npy"):
        train(
            "csv",
            f"--label cost --columns age,dose --weights-pub {weights} --seed 1 --rho 0.5 {MODEL}",
        )
        found.append(model()["coefficients"])
    assert found[0] == found[1]


def test_weights_of_private_rows_stay_beside_those_of_persons():
    """cost = 3 age where the weight is 1, and -3 age where it is 0; each row is a person."""
    rng = np.random.default_rng(0)
    age = rng.normal(size=8200)
    weight = rng.integers(0, 2, 8200)
    cost = np.where(weight == 1, 3.0, -3.0) * age + 0.5 * rng.normal(size=8200)
    both = pd.DataFrame({"cost": cost, "age": age, "count": weight, "id": rng.permutation(8200)})
    write(both, ["age"])
    words = "--label cost --columns age --weights-priv count --weights-pub count --weight-cap 1"
    train("csv", f"{words} --rho 1 --person id --rows-per-person 2 {MODEL}")
    assert model()["coefficients"] == pytest.approx([3.0], abs=0.1)
    assert model()["columns"] == ["age"]


def test_what_a_message_quotes_stays_as_it_is():
    text = spoken("column 'class_weight' of x_pub: pass weight_cap=")
    assert text == "column 'class_weight' of --public: pass --weight-cap"
    text = spoken(
        "every public gradient is zero: pass clip_norm=, the length of a gradient that matters"
    )
    assert "in Python" in text

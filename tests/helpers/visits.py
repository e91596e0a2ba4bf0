"""A table of visits of patients whose truth is known, in memory and as files."""

import numpy as np
import pandas as pd

WARDS = ("north", "south", "east")
NUMBER_OF_ROWS = 4357  # in no text of a table with persons
PATIENTS = 900


def visits(rows=NUMBER_OF_ROWS, seed=0):
    """Visits with a patient, a ward, an age of the patient, a cost that depends on both, and a date."""
    rng = np.random.default_rng(seed)
    patient = rng.integers(0, PATIENTS, rows)
    patient[:PATIENTS] = np.arange(PATIENTS)
    age = 30.0 + 40.0 * (patient % 97) / 97.0
    ward = rng.choice(WARDS, rows, p=(0.5, 0.3, 0.2))
    cost = 100.0 + 2.0 * age + 30.0 * (ward == "south") + rng.normal(0.0, 20.0, rows)
    days = rng.integers(0, 90, rows).astype("timedelta64[D]")
    return pd.DataFrame(
        {
            "patient": patient,
            "ward": ward,
            "age": age,
            "cost": cost,
            "admitted": np.datetime64("2024-01-01") + days,
        }
    )


def volunteers(rows=60):
    """Public rows of the same columns."""
    return visits(rows + PATIENTS, seed=1)[-rows:]


def files(folder, **more):
    """Write private and public rows and a file in TOML that binds them; return its path."""
    visits().to_parquet(folder / "visits.parquet")
    volunteers().to_csv(folder / "volunteers.csv", index=False)
    bound = {
        "private": "visits.parquet",
        "public": "volunteers.csv",
        "person": "patient",
        "rows_per_person": 3,
        "ledger": "visits.ledger",
        "ledger_total": "rho=1",
        **more,
    }
    lines = [f"{key} = {value!r}" for key, value in bound.items() if not isinstance(value, dict)]
    for key, texts in bound.items():
        if isinstance(texts, dict):
            lines += [f"[{key}]", *(f"{name} = '{text}'" for name, text in texts.items())]
    path = folder / "visits.toml"
    path.write_text("\n".join(lines).replace("'", '"') + "\n")
    return path

"""The table of cases, by name."""

import cases_estimators
import cases_mixtures
import cases_privacy
import cases_programs
import cases_training
from golden_case import Case

CASES: dict[str, Case] = {}
for _module in (cases_privacy, cases_estimators, cases_mixtures, cases_training, cases_programs):
    for _case in _module.CASES:
        assert _case.name not in CASES, f"two cases are called {_case.name!r}"
        CASES[_case.name] = _case

"""What a study compares, as a user says it."""

from __future__ import annotations

import msgspec
import pytest

from handoff.errors import InputError
from handoff.studies.design import DebtStudy, Study, TaxStudy, study_name


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: TaxStudy(low="A", high="A"), "two models"),
        (lambda: TaxStudy(low="../x"), "name successors"),
        (lambda: TaxStudy(timings=("p5", "p0")), "no timing"),
        (lambda: TaxStudy(directions=("up",)), "no direction"),
        (lambda: TaxStudy(interfaces=()), "needs interfaces"),
        (lambda: TaxStudy(interfaces=("window",)), "no window"),
        (lambda: DebtStudy(successors=()), "name successors"),
        (lambda: DebtStudy(views=("trace", "repo")), "always runs"),
        (lambda: DebtStudy(views=("telepathy",)), "no view"),
        (lambda: DebtStudy(labels=("wrong",)), "no point label"),
        (lambda: DebtStudy(labels=()), "needs labels"),
    ],
)
def test_what_cannot_be_compared_is_refused(make, problem) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=problem):
        make()


def test_a_study_has_a_name_that_can_be_a_folder_and_is_read_back_as_it_was() -> None:
    assert study_name(DebtStudy()) == "debt" and study_name(TaxStudy(seeds=1)) == "tax"
    for study in (DebtStudy(successors=("A+opening", "local")), TaxStudy(low="local", high="vendor", tasks=("mine",))):
        assert study_name(study).replace("-", "").replace("_", "").isalnum()
        assert msgspec.json.decode(msgspec.json.encode(study), type=Study) == study

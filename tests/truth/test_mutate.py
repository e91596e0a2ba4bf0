"""Terms that are changed by lot: each is where it is said to be, and what takes its place is Python."""

import ast

import pytest

from tests.truth import equivalent, mutate


def test_what_takes_the_place_of_a_term_is_python():
    for mutant in mutate.drawn(seed=0, count=30):
        source = (mutate.ROOT / mutant.spot.path).read_bytes()
        assert source[mutant.spot.start : mutant.spot.end].decode() == mutant.spot.text
        ast.parse(
            source[: mutant.spot.start] + mutant.replaced.encode() + source[mutant.spot.end :]
        )


def test_a_seed_draws_the_same_terms():
    assert mutate.drawn(seed=48, count=5) == mutate.drawn(seed=48, count=5)


def test_parts_of_terms_are_found():
    source = "noise_std = 2.0 * clip\nwidth = np.hypot(noise, np.sqrt(tail**2 + drift))"
    found = [
        (ast.get_source_segment(source, node), without)
        for node, without in mutate.parts(ast.parse(source))
    ]
    assert sorted(found) == [
        ("2.0", "1.0"),
        ("clip", "1.0"),
        ("drift", "0.0"),
        ("noise", "0.0"),
        ("np.sqrt(tail**2 + drift)", "0.0"),
        ("tail**2", "0.0"),
    ]


def test_a_lesser_of_two_without_one_is_the_other():
    source = "reach = min(tail, most)"
    found = dict(
        (ast.get_source_segment(source, node), without)
        for node, without in mutate.parts(ast.parse(source))
    )
    assert found == {"tail": "most", "most": "tail"}


def test_what_the_right_package_shows_too_catches_no_fault():
    before = {"estimate_mean(): far"}
    shown = ["estimate_mean(): far: [light] 3", "estimate_mean(): coverage mean: [light] 4"]
    assert mutate.first_new(shown[:1], before) == ""
    assert mutate.first_new(shown, before) == shown[1]


def test_every_term_that_is_listed_as_equivalent_is_in_the_package():
    found = {(spot.path, spot.function, spot.text) for spot in mutate.spots()}
    assert {each[:3] for each in equivalent.EQUIVALENT} - found == set()


def test_a_survivor_that_is_listed_with_a_reason_is_none(monkeypatch):
    monkeypatch.setattr(equivalent, "EQUIVALENT", ())
    (mutant,) = mutate.drawn(seed=0, count=1)
    survivor = mutate.Judged(mutant, [], "")
    assert survivor.survives
    place = (mutant.spot.path, mutant.spot.function, mutant.spot.text)
    listed = equivalent.Equivalent(*place, "it decides who is told")
    monkeypatch.setattr(equivalent, "EQUIVALENT", (listed,))
    assert not survivor.survives


@pytest.mark.audit
def test_terms_that_are_changed_by_lot_are_noticed():
    survivors = [str(each) for each in mutate.judged(seed=1, count=10) if each.survives]
    assert survivors == []

import hashlib

from raypipe.data.python_docs.build import SHARES, choose_sections, split_units, unit_of


def test_units_go_to_the_split_that_is_filled_least() -> None:
    # shares 0.62, 0.15, 0.23; 50: 81 333 217; then 20: 113 133 87; then 10: 97 67 130
    assert split_units({"b": 20, "a": 50, "c": 10}) == {"a": "train", "b": "test", "c": "dev"}


def test_chosen_sections_are_whole_and_a_shared_passage_counts_once() -> None:
    passages = {f"m.f{number}": [f"p{number}", "shared"] for number in range(50)}
    splits = dict.fromkeys(passages, "train")
    chosen = choose_sections(passages, splits=splits, max_passages=20)  # 12 of 20 are train's
    assert len(chosen) == 11
    assert chosen < choose_sections(passages, splits=splits, max_passages=40)


def test_modules_of_one_matter_stay_together_and_ties_go_by_name():
    assert [unit_of(m) for m in ("posixpath", "sre_parse", "html", "asynchat", "json")] == [
        "os", "re", "xml", "asyncore", "json"]  # fmt: skip
    assert split_units({"b": 1, "a": 1}, {"x": 0.5, "y": 0.5}) == {"a": "x", "b": "y"}
    assert split_units({}, SHARES) == {}


def test_a_section_that_fits_exactly_is_chosen():
    passages, splits = {"m.a": ["1", "2"], "m.b": ["3"]}, {"m.a": "x", "m.b": "y"}
    chosen = choose_sections(passages, splits=splits, max_passages=4, shares={"x": 0.5, "y": 0.2})
    assert chosen == {"m.a"}


def test_sections_are_chosen_in_the_order_of_their_names_sha256():
    """Their digests begin with 56, 3e and 77."""
    names = ["m.a", "m.b", "m.c"]
    order = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    for count in (1, 2, 3):
        chosen = choose_sections(
            {name: [name] for name in names},
            splits=dict.fromkeys(names, "x"),
            max_passages=count,
            shares={"x": 1.0},
        )
        assert chosen == set(order[:count])

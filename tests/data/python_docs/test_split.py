from raypipe.data.python_docs.split import choose_sections, split_units


def test_units_go_to_the_split_that_is_filled_least() -> None:
    # shares 0.62, 0.15, 0.23; 50: 81 333 217; then 20: 113 133 87; then 10: 97 67 130
    assert split_units({"b": 20, "a": 50, "c": 10}) == {"a": "train", "b": "test", "c": "dev"}


def test_chosen_sections_are_whole_and_a_shared_passage_counts_once() -> None:
    passages = {f"m.f{number}": [f"p{number}", "shared"] for number in range(50)}
    splits = dict.fromkeys(passages, "train")
    chosen = choose_sections(passages, splits=splits, max_passages=20)  # 12 of 20 are train's
    assert len(chosen) == 11
    assert chosen < choose_sections(passages, splits=splits, max_passages=40)

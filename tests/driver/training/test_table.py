from types import SimpleNamespace

from raypipe.driver.training.train import training_table


def job(**recipe):
    given = {"name": "mine", "dev": ["a", "b"], "validate_": SimpleNamespace(measure="RR@10")}
    recipe = SimpleNamespace(**{"masking": None, **given, **recipe})
    return SimpleNamespace(phase=None, recipe=recipe, is_pretraining=recipe.masking is not None)


def test_the_first_of_the_best_checkpoints_is_marked_as_chosen():
    history = [
        {"step": 10, "mean": 0.25, "values": [0.25, 0.25]},
        {"step": 2000, "mean": 0.5, "values": [0.25, 0.75]},
        {"step": 3000, "mean": 0.5, "values": [0.5, 0.5]},
    ]
    assert training_table(job(), history, ["told"], "books") == (
        "# mine\n\nRR@10 on dev sets:\n\n"
        "| step           | a      | b      | mean   |\n"
        "|----------------|--------|--------|--------|\n"
        "| 10             | 0.2500 | 0.2500 | 0.2500 |\n"
        "| 2,000 (chosen) | 0.2500 | 0.7500 | 0.5000 |\n"
        "| 3,000          | 0.5000 | 0.5000 | 0.5000 |\n\n"
        "- the model is the checkpoint that is best here, so these are not test results\n"
        "- told\n- its weights have seen: books\n"
    )
    once = training_table(job(), history[:1], [], "x")
    assert "(chosen)" not in once and "measured once: nothing was chosen" in once
    reached = "the start model measured 0.5000, which no checkpoint reached"
    assert reached not in training_table(job(), history, [], "x", 0.5)
    assert reached.replace("0.5000", "0.5100") in training_table(job(), history, [], "x", 0.51)
    assert reached in training_table(job(), history[:1], [], "x", 0.5)
    assert training_table(job(), [], [], "x") == "# mine\n\n- its weights have seen: x\n"


def test_of_a_pretraining_the_lowest_loss_on_held_out_inputs_is_chosen():
    history = [
        {"step": 10, "mean": 0.5, "values": [0.5]},
        {"step": 20, "mean": 0.25, "values": [0.25]},
    ]
    measure = SimpleNamespace(measure="masked_word_loss")
    own = job(masking=True, train={"docs": None}, validate_=measure)
    table = training_table(own, history, [], "books")
    assert (
        "masked_word_loss on held-out inputs:" in table
        and "| step        | docs   | mean   |" in table
    )
    assert "| 20 (chosen) | 0.2500 | 0.2500 |" in table
    assert "nothing was chosen on these inputs" in training_table(own, history[:1], [], "x")
    measured = "the start model measured 0.2"
    assert f"{measured}000, which" in training_table(own, history, [], "x", 0.2)
    assert measured not in training_table(own, history, [], "x", 0.26)

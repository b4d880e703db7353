"""What a notebook gives: texts, runs, judgements, scores and models, checked."""

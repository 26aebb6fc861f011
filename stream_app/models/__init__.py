"""State that learns, predicts, counts and estimates: a function of its input and a seed."""

"""How claims are picked without a language model: sentences, their features and scores, their categories."""

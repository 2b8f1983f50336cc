"""Choose sentences, pack them within a budget, and render them as blocks of context and briefings."""

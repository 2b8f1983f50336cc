"""How one message is boiled down without a model: its summary, its keywords, its key facts."""

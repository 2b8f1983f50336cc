"""Talk with the memory at hand: active memory, running summary."""

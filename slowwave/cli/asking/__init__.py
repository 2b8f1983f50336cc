"""Commands that ask the memory, show what it holds, or tell it something."""

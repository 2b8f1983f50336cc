"""`slowwave talk`: a chat with a language model that remembers, and web search."""

"""Claims by a language model: what is asked, in which order, and how long sessions are brought to one state."""

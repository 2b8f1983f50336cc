"""Adapters for LangChain (`retriever.py`, `history.py`) and LangGraph (`store.py`). The extra `langchain` has both."""

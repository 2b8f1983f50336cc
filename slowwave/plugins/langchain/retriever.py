"""A retriever for LangChain over a memory.

retriever = MemoryRetriever(memory=Memory.open(), k=5, filters={"workspace": "shop"})
retriever.invoke("why did we leave Redis?")
"""

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from slowwave.context.recall_log import note_hits
from slowwave.memory import Memory
from slowwave.recall.hits import KINDS, Hit


class MemoryRetriever(BaseRetriever):
    """Returns hits of `Memory.recall` as documents, best first."""

    memory: Memory
    k: int = 5
    """Most documents."""
    kinds: tuple[str, ...] = KINDS
    filters: dict[str, Any] = Field(default_factory=dict)
    """Conditions of `Memory.recall` (`slowwave.schemas.filters.Filters`)."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        """Return the hits, and log them, so that a night does not distil their repetition.

        Raises:
            UsageError: the query has no words, or a filter is invalid.
            StoreError: the store can't be read.
        """
        hits = self.memory.recall(query, self.k, self.kinds, **self.filters)
        note_hits(self.memory.root / self.memory.space, hits)
        return [make_document(hit) for hit in hits]


def make_document(hit: Hit) -> Document:
    """Return a hit as a document: its text, its id, and the other values of `Hit.as_dict` as metadata."""
    metadata: dict[str, Any] = hit.as_dict()
    text = metadata.pop("text")
    key = metadata.pop("id")
    return Document(page_content=text, id=key, metadata=metadata)

"""LangChain's and LangGraph's own classes over a memory: a retriever, a chat history and a store."""

import asyncio
import time
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore

from slowwave import Memory
from slowwave.flows.nightly import run_night
from slowwave.plugins.langchain.history import MemoryChatHistory
from slowwave.plugins.langchain.retriever import MemoryRetriever
from slowwave.plugins.langchain.store import MemoryStore
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
from slowwave.store.notes import find_talk_logs
from slowwave.store.releases import Snapshot
from tests.talk_files import SAID, chat

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
KEY = "sk-ant-api03-" + "Zq7" * 31 + "xAA"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A store of one night over a chat."""
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    made = Settings(store=tmp_path / "store")
    run_night([chat(tmp_path / "talks", "c", 3, SAID[:6])], made)
    return made


def test_a_retriever_gives_documents_with_their_sources(settings: Settings) -> None:
    memory = Memory.open(settings.store)
    found = MemoryRetriever(memory=memory, k=2, filters={"speaker": "Ben"})
    first, *more = found.invoke("who is allergic to walnuts or bought a bicycle?")
    assert len(more) <= 1
    assert first.metadata["sources"][0]["session"] == "c"
    assert first.id
    assert {one.metadata["speaker"] for one in (first, *more)} == {"Ben"}
    again = asyncio.run(found.ainvoke("when do we visit the museum?"))
    assert "museum" in again[0].page_content
    with pytest.raises(UsageError):
        found.invoke("?")


def test_a_chain_goes_on_with_a_history_that_another_process_opens(
    settings: Settings,
) -> None:
    model = GenericFakeChatModel(messages=iter(["Noted: Oslo.", "In Oslo."]))
    prompt = ChatPromptTemplate([MessagesPlaceholder("past"), ("user", "{text}")])
    chain = RunnableWithMessageHistory(
        prompt | model,
        lambda name: MemoryChatHistory(Memory.open(settings.store), name),
        input_messages_key="text",
        history_messages_key="past",
    )
    config: Any = {"configurable": {"session_id": "../a thread"}}
    chain.invoke({"text": "My brother Olaf lives in Oslo by the fjord."}, config)
    chain.invoke({"text": f"Where does he live? My key is {KEY}."}, config)
    history = MemoryChatHistory(Memory.open(settings.store), "../a thread")
    texts = [message.text for message in history.messages]
    assert texts[:2] == ["My brother Olaf lives in Oslo by the fjord.", "Noted: Oslo."]
    assert texts[3] == "In Oslo."
    assert KEY not in texts[2]
    assert MemoryChatHistory(Memory.open(settings.store), "other").messages == []
    run_night(find_talk_logs(settings.store / "default"), settings)
    told = Snapshot(settings.store).read(MESSAGES, ["text"])["text"].to_pylist()
    assert told.count("Noted: Oslo.") == 1
    history.clear()
    assert MemoryChatHistory(Memory.open(settings.store), "../a thread").messages == []
    told = Snapshot(settings.store).read(MESSAGES, ["text"])["text"].to_pylist()
    assert "Noted: Oslo." not in told


def test_a_history_gives_tool_calls_back(settings: Settings) -> None:
    call: Any = {"name": "search", "args": {"q": "tide", "key": KEY}, "id": "c1"}
    said = [
        HumanMessage("When is high water?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("at 14:20", tool_call_id="c1"),
        AIMessage([{"type": "text", "text": "At 14:20."}]),
    ]
    history = MemoryChatHistory(Memory.open(settings.store), "t")
    history.add_messages(said)
    read = MemoryChatHistory(Memory.open(settings.store), "t").messages
    assert [type(message) for message in read] == [type(message) for message in said]
    assert isinstance(read[1], AIMessage)
    assert read[1].tool_calls[0]["args"]["q"] == "tide"
    assert KEY not in str(read)
    assert read[2:] == said[2:]
    (path,) = (settings.store / "default" / "talk").glob("*.jsonl")
    assert KEY not in path.read_text()
    history.clear()
    assert list(path.parent.iterdir()) == []  # also what had a tool call and no words
    history.add_message(said[1])
    history.clear()
    assert list(path.parent.iterdir()) == []
    history.clear()  # what is not there is no error


def test_a_graph_uses_the_store(settings: Settings) -> None:
    class State(TypedDict):
        said: str
        found: str

    def recall(state: State, *, store: BaseStore) -> dict[str, str]:
        store.put(("ann", "tastes"), "food", {"text": state["said"]})
        (item,) = store.search(("ann",), query="what may Ann not eat, walnuts?")
        return {"found": item.value["text"]}

    builder = StateGraph(State)
    builder.add_node("recall", recall)
    builder.add_edge(START, "recall")
    graph = builder.compile(store=MemoryStore(Memory.open(settings.store)))
    done = graph.invoke({"said": "Ann may not eat walnuts.", "found": ""})
    assert done["found"] == "Ann may not eat walnuts."


def test_the_store_keeps_what_was_put_and_forgets_what_was_deleted(
    settings: Settings,
) -> None:
    store = MemoryStore(Memory.open(settings.store))
    store.put(("ann", "tastes"), "food", {"text": "Ann eats walnuts.", "stars": 2})
    time.sleep(0.002)  # times have milliseconds
    store.put(("ann", "tastes"), "food", {"text": "Ann eats no walnuts.", "stars": 5})
    store.put(("ann", "trips"), "lisbon", {"text": "The ferry to Lisbon is late."})
    store.put(("ben",), "key", {"text": f"The key is {KEY}."})
    item = store.get(("ann", "tastes"), "food")
    assert item is not None
    assert item.value == {"text": "Ann eats no walnuts.", "stars": 5}
    assert item.created_at < item.updated_at
    assert store.get(("ann",), "food") is None
    found = store.search(("ann",), query="is the ferry to Lisbon late?")
    assert [one.key for one in found] == ["lisbon", "food"]
    assert found[0].score
    assert [one.key for one in store.search(("ann",))] == ["lisbon", "food"]
    assert [one.key for one in store.search((), filter={"stars": {"$gt": 4}})] == [
        "food"
    ]
    assert store.list_namespaces(prefix=("*", "trips")) == [("ann", "trips")]
    assert store.list_namespaces(max_depth=1) == [("ann",), ("ben",)]
    assert store.list_namespaces(suffix=("tastes",)) == [("ann", "tastes")]
    ben = store.get(("ben",), "key")
    assert ben
    assert KEY not in str(ben.value)
    with pytest.raises(UsageError, match="is not an operator"):
        store.search((), filter={"stars": {"$near": 4}})
    with pytest.raises(UsageError, match="this one has none: nothing was noted"):
        store.put(("ann",), "blank", {"text": " "})
    with pytest.raises(UsageError, match=r"10,0.. with its names and fields"):
        store.put(("ann",), "long", {"text": "a" * 5_000})
    asyncio.run(store.adelete(("ann", "tastes"), "food"))
    assert store.get(("ann", "tastes"), "food") is None
    (path,) = (settings.store / "default" / "notes").glob("*.jsonl")
    assert "walnuts" not in path.read_text()
    store.delete(("ann", "tastes"), "food")  # what is not there is no error
    found = store.search(("ann",), query="is the ferry to Lisbon late?")
    assert found[0].score  # the other items are still found, before the next night


def test_a_memory_before_its_first_night_takes_both(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "new", unreleased=True)
    store, history = MemoryStore(memory), MemoryChatHistory(memory, "t")
    store.put(("a",), "k", {"text": "The boiler in the cellar leaks.", "n": 1})
    history.add_user_message("Where is the boiler?")
    assert [one.key for one in store.search(("a",), query="boiler leaks")] == ["k"]
    assert len(history.messages) == 1

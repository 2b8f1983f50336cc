"""The layers that read a person's sentences in one pass over the message."""

import json
import shutil
from typing import Any

import numpy as np
import pytest

from bench.fit.reader import as_spoken
from slowwave.engines.encoders.load import load_query_encoder
from slowwave.engines.encoders.onnx import open_onnx_encoder
from slowwave.engines.encoders.protocol import without_new_graphs
from slowwave.flows.nightly import run_night
from slowwave.schemas.counters import CountByKind
from slowwave.schemas.settings import Settings
from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.observe.layers import (
    LAYERS,
    REGRESSION,
    SHIPPED,
    WINDOW,
    can_open_layers,
    list_windows,
    load_layered_reader,
    load_shipped,
    name_reader,
    read_sentences,
    split_sentences_by_length,
)
from slowwave.tasks.observe.reader import load_reader
from slowwave.tasks.observe.task import NOT_IN_LAYERS
from slowwave.tasks.observe.units import list_sentences


def spoken(*turns):
    return [
        one
        for one in list_sentences(as_spoken(turns), least_said=1)
        if one.turn.row["origin"] == Origin.HUMAN
    ]


def read(*turns):
    said = spoken(*turns)
    readings = read_sentences(said, in_layers=True)
    return {one.text: reading for one, reading in zip(said, readings, strict=True)}


TALK = (
    (
        "assistant",
        "The parser reads the log into one frame. Shall I keep it in memory?",
    ),
    ("user", "never keep it in memory, the box has 2 GB. could you run the tests?"),
)


def test_a_rule_is_told_and_the_request_beside_it_is_not():
    found = read(*TALK)
    assert found["never keep it in memory, the box has 2 GB"].told > 0.5
    assert found["could you run the tests?"].told < 0.5


def test_what_is_read_does_not_depend_on_what_it_is_read_with():
    one, other = spoken(*TALK)
    beside = spoken(("assistant", "Hello."), ("user", "tabs, and no trailing blanks"))
    together = read_sentences([one, *beside, other], in_layers=True)
    assert read_sentences([other], in_layers=True) == [together[-1]]
    assert read_sentences([one], in_layers=True) == [together[0]]


def test_both_readers_count():
    said = spoken(*TALK)
    session = load_layered_reader().open(encoder := load_shipped())
    by_layers = load_layered_reader().read(session, encoder, said)
    by_words = load_reader().read(said)
    assert by_words == read_sentences(said, in_layers=False)
    for one, other, both in zip(
        by_layers, by_words, read_sentences(said, in_layers=True), strict=True
    ):
        for head, likely in both.by_head.items():
            # odds of 3 and of 4 to one are 12 to one
            odds = [by.by_head[head] / (1 - by.by_head[head]) for by in (one, other)]
            assert likely / (1 - likely) == pytest.approx(odds[0] * odds[1], rel=1e-6)


def test_a_long_message_is_read_in_windows_of_whole_sentences():
    text = " ".join(f"Sentence number {at} is about the pump." for at in range(60))
    said = spoken(("assistant", "Ready."), ("user", text))
    windows = list(split_sentences_by_length(said[0].turn))
    assert [at for window in windows for at in window] == list(range(60))
    lengths = [
        said[0].turn.sentences[window[-1]].end - said[0].turn.sentences[window[0]].start
        for window in windows
    ]
    assert len(windows) > 3
    assert max(lengths) <= WINDOW
    assert None not in read_sentences(said, in_layers=True)


def test_a_window_marks_the_tokens_of_each_sentence():
    encoder = load_query_encoder(SHIPPED)
    (one, other) = spoken(("assistant", "Which?"), ("user", "use tabs. go home"))
    (window,) = list_windows(encoder, one.turn, one.last, {one.at, other.at})
    # [CLS] which ? [SEP] use tab ##s . go home [SEP]
    assert len(window.ids) == 11
    assert window.spans == {0: (4, 7), 1: (8, 10)}
    np.testing.assert_allclose(window.build_share().sum(axis=2), 1.0)


def test_the_layers_open_after_the_cache_was_emptied(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "first"))
    layered: Any = load_query_encoder(SHIPPED)
    folder = layered.folder
    encoder = open_onnx_encoder.__wrapped__(folder, SHIPPED)
    shutil.rmtree(tmp_path / "first")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "second"))
    session = load_layered_reader().open(encoder)
    assert [output.name for output in session.get_outputs()] == ["pooled"]


def test_the_layers_are_stored_in_8_bits_without_loss_of_what_is_read():
    reader = load_layered_reader()
    again = type(reader).from_bytes(reader.to_bytes())
    for name, tensor in reader.tensors.items():
        np.testing.assert_allclose(again.tensors[name], tensor, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "reader"),
    [
        ({}, LAYERS),
        ({"encoder": f"{SHIPPED}:8bit"}, LAYERS),
        ({"encoder": "hash-384"}, REGRESSION),
        ({"embeddings": False}, REGRESSION),
    ],
)
def test_layers_read_where_their_encoder_is_set(changes, reader):
    assert name_reader(Settings(**changes)) == reader


def test_a_night_says_which_reader_read_and_reads_again_in_layers(
    tmp_path, monkeypatch
):
    folder = tmp_path / "sessions"
    folder.mkdir()
    turn = {"type": "user", "cwd": "/w", "version": "2.1.0"}

    def write(session, *said):
        records = [
            turn
            | {
                "sessionId": session,
                "uuid": f"{session}{at}",
                "timestamp": f"2026-03-02T09:0{at}:00Z",
                "message": {"role": "user", "content": text},
            }
            for at, text in enumerate(said)
        ]
        (folder / f"{session}.jsonl").write_text("\n".join(map(json.dumps, records)))

    write("s", "we never indent with tabs here", "the upload limit is 500 MB")
    settings = Settings(store=tmp_path / "store", gists="off")

    def observe():
        report = run_night([folder], settings)
        (step,) = [step for step in report.steps if step.step == "observe"]
        read = step.kinds[CountByKind.SESSIONS_READ]
        return read, step.notes

    for opened in (load_shipped, can_open_layers, open_onnx_encoder):
        opened.cache_clear()
    with monkeypatch.context() as patched, without_new_graphs():
        patched.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
        assert not can_open_layers()
    assert observe() == ({"regression": 1}, [NOT_IN_LAYERS])
    # the first session is not read again as long as it is so
    write("t", "phone numbers are kept 90 days", "all amounts are in cents")
    assert observe() == ({"regression": 1}, [NOT_IN_LAYERS])
    can_open_layers.cache_clear()
    write("u", "the board shows UTC alone", "gaps are never filled")
    assert observe() == ({"layers": 3}, [])

"""``punctuate --from vosk | kaldi-server | online2``: finals come out, everything else is counted."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kaldi_punct.cli import main
from kaldi_punct.commands.results import read_results, recording_of
from kaldi_punct.commands.sources import Item, Tables

DATA = Path(__file__).parent / "data" / "decoders"


@pytest.fixture
def run(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., SimpleNamespace]:
    """Runs ``punctuate`` with the tiny model: exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*args: object) -> SimpleNamespace:
        capfd.readouterr()
        status = main(["punctuate", "--model", str(tiny_model), *map(str, args)])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return SimpleNamespace(status=status, out=out, err=err, lines=out.splitlines(), last=err.splitlines()[-1])

    return call


def bare(line: str) -> str:
    return line.lower().translate({ord(mark): None for mark in ",.?"})


def write(path: Path, *messages: object) -> Path:
    path.write_text("".join(json.dumps(m) + "\n" for m in messages), encoding="utf-8")
    return path


def items(path: Path, kind: str) -> list[Item]:
    return [item for _, item in read_results(str(path), kind, Tables()) if isinstance(item, Item)]


class TestKinds:
    def test_vosk_text(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("--from", "vosk", DATA / "vosk-words.json", "-")
        assert (done.status, done.last) == (0, "Done 3, 0 errors")
        assert [bare(line) for line in done.lines] == [
            "vosk-words-0001 in the comparatively modern",
            "vosk-words-0002 as never been surpassed",
            "vosk-words-0003",
        ]
        assert "3 finals; 3 partials passed over" in done.err

    def test_vosk_ctm_is_one_of_the_recording(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("--from", "vosk", "--to", "ctm", DATA / "vosk-words.json", "-")
        assert done.status == 0
        assert [bare(" ".join(line.split()[4:5])) for line in done.lines][:3] == ["in", "the", "comparatively"]
        assert len(done.lines) == 8
        fields = done.lines[5].split()
        assert (fields[:4], bare(fields[4]), fields[5]) == (["vosk-words", "1", "4.15", "0.32"], "never", "0.65")

    def test_vosk_jsonl(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("--from", "vosk", "--to", "jsonl", DATA / "vosk-alternatives.json", "-")
        records = [json.loads(line) for line in done.lines]
        assert [r["utt_id"][-4:] for r in records] == ["0001", "0002", "0003"]
        words = records[1]["words"]
        assert [(w["word"], w["start_s"], w["confidence"]) for w in words][:2] == [
            ("as", 3.87, None),
            ("never", 4.14, None),
        ]

    def test_kaldi_server(self, run: Callable[..., SimpleNamespace]) -> None:
        done = run("--from", "kaldi-server", DATA / "kaldi-server.jsonl", "-")
        assert (done.status, done.last) == (0, "Done 2, 0 errors")
        assert [bare(line) for line in done.lines] == ["req-7-0001 hello there", "req-7-0002 fine thanks"]
        assert "2 finals; 2 partials passed over" in done.err
        assert "1 messages without a result passed over" in done.err

    def test_online2_from_stdin(
        self, run: Callable[..., SimpleNamespace], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "x").write_bytes(b"0.00 1.00 so \r0.00 2.00 so what \n2.00 3.00 now \n")
        with (tmp_path / "x").open() as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            done = run("--from", "online2", "-", "-")
        assert done.status == 0
        assert [bare(line) for line in done.lines] == ["stream-0001 so what", "stream-0002 now"]

    def test_ctm_wants_word_times(self, run: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
        done = run("--from", "vosk", "--to", "ctm", write(tmp_path / "a.json", {"text": "so"}), "-")
        assert done.status == 1
        assert "a-0001: expected word times for --to ctm, got 'so' without them; give a CTM" in done.err
        assert "of Vosk, results after SetWords(True)" in done.err


class TestConversations:
    def test_the_finals_of_a_recording_see_each_other(
        self, run: Callable[..., SimpleNamespace], tmp_path: Path
    ) -> None:
        finals = [{"text": "so what do you think"}, {"text": "i think so"}, {"text": "well then"}]
        path = write(tmp_path / "a.json", *finals)
        (tmp_path / "whole").write_text("a so what do you think i think so well then\n", encoding="utf-8")
        parts = [line.split()[1:] for line in run("--from", "vosk", path, "-").lines]
        assert [w for part in parts for w in part] == run("--from", "text", "whole", "-").out.split()[1:]

    def test_recordings_are_conversations(self, tmp_path: Path) -> None:
        def final(start: float) -> object:
            return {"text": "so", "result": [{"word": "so", "start": start, "end": start + 1}]}

        found = items(write(tmp_path / "a.json", final(0), final(1), final(0), final(1)), "vosk")
        assert [i.conversation for i in found] == ["a", "a", "a-2", "a-2"]
        assert [line.line for i in found for line in i.lines] == [1, 2, 3, 4]

    def test_speakers_by_utterance(self, run: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
        (tmp_path / "utt2spk").write_text("a-0001 ann\n", encoding="utf-8")
        path = write(tmp_path / "a.json", {"text": "so"})
        done = run("--from", "vosk", "--to", "jsonl", "--utt2spk", "utt2spk", path, "-")
        assert json.loads(done.out)["words"][0]["spk_id"] == "ann"

    def test_segments_are_refused(self, run: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
        (tmp_path / "segments").write_text("a-0001 a 0 1\n", encoding="utf-8")
        path = write(tmp_path / "a.json", {"text": "so"})
        done = run("--from", "vosk", "--segments", "segments", path, "-")
        assert done.status != 0
        assert "--segments: expected none with --from vosk, whose messages are segments; leave it out" in done.err


class TestBadInput:
    def test_one_bad_message(self, run: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text('{"text": "so what"}\n{"text": "so\n{"text": 5}\nLOG: x\n{"text": "now"}\n', encoding="utf-8")
        done = run("--from", "vosk", path, "-")
        assert (done.status, done.last) == (0, "Done 2, 3 errors")
        assert [bare(line) for line in done.lines] == ["a-0001 so what", "a-0002 now"]
        for start in (
            "2: expected one JSON object",
            "3: expected a string 'text', got a number",
            "4: expected one JSON",
        ):
            assert f"{path}:{start}" in done.err

    def test_times_that_step_back(self, run: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
        words = [{"word": w, "start": s, "end": s + 1} for w, s in (("so", 2), ("what", 1))]
        path = write(tmp_path / "a.json", {"text": "so what", "result": words}, {"text": "now"})
        done = run("--from", "vosk", path, "-")
        assert (done.status, done.last) == (0, "Done 1, 1 errors")
        assert "a-0001: expected times that go on, got 'what' at 1 s after a word at 2 s" in done.err

    def test_a_broken_stream_keeps_what_came_before(self, run: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
        shutil.copy(DATA / "vosk-words.json", tmp_path / "a.json")
        done = run("--from", "vosk", "cat a.json; exit 3 |", "-")
        assert done.status == 1
        assert [line.split()[0] for line in done.lines] == ["stream-0001", "stream-0002", "stream-0003"]
        assert done.last == "Done 3, 1 errors"

    def test_nothing(self, run: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text("", encoding="utf-8")
        done = run("--from", "vosk", "a.json", "-")
        assert done.status == 1
        assert "expected utterances, got none: is it empty?" in done.err

    def test_what_is_worth_a_warning(self, run: Callable[..., SimpleNamespace], tmp_path: Path) -> None:
        message = {"text": "So.", "result": [{"word": "so", "start": 0, "end": 1}], "spk": [1.0]}
        done = run("--from", "vosk", write(tmp_path / "a.json", message, {"partial": "and then"}), "-")
        assert "1 texts differ from the timed words beside them: the timed words are taken" in done.err
        assert "2 words of partials never became final: ask the decoder for its last result" in done.err
        assert "1 speaker vectors passed over" in done.err


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("-", "stream"),
        ("", "stream"),
        ("cat x.json |", "stream"),
        ("a/call 1.json.gz", "call_1"),
        ("call.2.json", "call.2"),
        ("call", "call"),
        (".json", ".json"),
    ],
)
def test_names_of_recordings(source: str, name: str) -> None:
    assert recording_of(source) == name

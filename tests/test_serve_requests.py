"""What the service refuses: each with INVALID_ARGUMENT, the field's dotted name, and a text that says what to do."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import soundfile
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from serving import running_server, tiny_checkpoint

from kaldi_punct.punctuator import Punctuator
from kaldi_punct.serve.decoders import load_decoder_file
from kaldi_punct.v1 import punctuation_pb2 as pb
from kaldi_punct.v1 import punctuation_pb2_grpc as pb_grpc


@pytest.fixture(scope="module")
def stub(mini: Path) -> Iterator[pb_grpc.PunctuationStub]:
    decoders = {"mini": load_decoder_file(mini / "decoder.yaml")}
    with (
        running_server({"tiny": Punctuator(tiny_checkpoint("none"))}, decoders) as address,
        grpc.insecure_channel(address) as channel,
    ):
        yield pb_grpc.PunctuationStub(channel)


def refused(stub: pb_grpc.PunctuationStub, request: pb.PunctuateRequest) -> tuple[str, str]:
    """(field, text) of a request that is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        stub.Punctuate(request, timeout=60)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    status = rpc_status.from_call(caught.value)
    assert status is not None
    detail = error_details_pb2.BadRequest()
    assert status.details[0].Unpack(detail)
    assert detail.field_violations[0].description == status.message == caught.value.details()
    return detail.field_violations[0].field, status.message


def words(*fields: dict[str, object]) -> pb.PunctuateRequest:
    return pb.PunctuateRequest(transcript=pb.Transcript(words=[pb.Word(**{"word": "so", **f}) for f in fields]))


def nbest(*hyps: dict[str, object], **fields: object) -> pb.PunctuateRequest:
    hypotheses = [pb.Hypothesis(words=[pb.Word(word="so")], **h) for h in hyps]
    return pb.PunctuateRequest(nbest=pb.NBest(hypotheses=hypotheses, **fields))


def sound(**fields: object) -> pb.PunctuateRequest:
    return pb.PunctuateRequest(text="so", audio=pb.Audio(**fields))


def lattice(**fields: object) -> pb.PunctuateRequest:
    return pb.PunctuateRequest(lattice=pb.Lattice(**fields))


def stereo() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros((800, 2), np.int16), 8000, format="WAV")
    return file.getvalue()


def mono(rate_hz: int = 8000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(800, np.int16), rate_hz, format="WAV")
    return file.getvalue()


T = {"start_s": 1.0, "duration_s": 0.2}
COSTS = {"graph_cost": 1.0, "acoustic_cost": 2.0}
LINEAR16, FILE = pb.Audio.ENCODING_LINEAR16, pb.Audio.ENCODING_FILE
NUMBER = "a finite number"
UNKNOWN = "leave it out where it is unknown"

REFUSED = [
    (pb.PunctuateRequest(), "input", "expected one of transcript, nbest, lattice and text, got none; set one of them"),
    # Words
    (words({}, {"word": "a b"}), "transcript.words[1].word",
     "expected one token without blanks, got 'a b'; send one Word for each token"),
    (words({"word": ""}), "transcript.words[0].word",
     "expected one token without blanks, got ''; send one Word for each token"),
    (words({"word": "a\t"}), "transcript.words[0].word",
     "expected one token without blanks, got 'a\\t'; send one Word for each token"),
    (words({"start_s": 1.0}), "transcript.words[0].duration_s",
     "expected both times or neither, got start_s alone; send duration_s too"),
    (words({"duration_s": 1.0}), "transcript.words[0].start_s",
     "expected both times or neither, got duration_s alone; send start_s too"),
    (words({"start_s": 1.0, "duration_s": -0.1}), "transcript.words[0].duration_s",
     f"expected a number of at least 0, got -0.1; {UNKNOWN}"),
    (words({"start_s": math.nan, "duration_s": 0.1}), "transcript.words[0].start_s",
     f"expected {NUMBER}, got nan; {UNKNOWN}"),
    (words({"start_s": 1.0, "duration_s": math.inf}), "transcript.words[0].duration_s",
     f"expected a number of at least 0, got inf; {UNKNOWN}"),
    (words({"confidence": 1.5}), "transcript.words[0].confidence",
     f"expected a number from 0 to 1, got 1.5; {UNKNOWN}"),
    (words({"confidence": math.nan}), "transcript.words[0].confidence",
     f"expected a number from 0 to 1, got nan; {UNKNOWN}"),
    (words(T, {"start_s": 0.85, "duration_s": 0.1}), "transcript.words[1].start_s",
     "expected times that step back by at most 0.1 s, got 0.85 after 1; send the words in order of time"),
    (pb.PunctuateRequest(text="so", left_context=[pb.Word(word="well"), pb.Word(word="o k")]), "left_context[1].word",
     "expected one token without blanks, got 'o k'; send one Word for each token"),
    # N-best
    (nbest(), "nbest.hypotheses", "expected at least one hypothesis, got none; send a transcript without words"),
    (nbest(COSTS, {"graph_cost": 1.0}), "nbest.hypotheses[1].acoustic_cost",
     "expected both costs or neither, got graph_cost alone; send acoustic_cost too"),
    (nbest({"acoustic_cost": 1.0}), "nbest.hypotheses[0].graph_cost",
     "expected both costs or neither, got acoustic_cost alone; send graph_cost too"),
    (nbest(COSTS, {"posterior": 0.5}), "nbest.hypotheses[1]",
     ("expected costs as in hypotheses[0], got a posterior; "
     "give every hypothesis both costs, or a posterior, or nothing")),
    (nbest(COSTS, {}), "nbest.hypotheses[1]",
     ("expected costs as in hypotheses[0], got neither costs nor a posterior; "
     "give every hypothesis both costs, or a posterior, or nothing")),
    (nbest({**COSTS, "posterior": 0.5}), "nbest.hypotheses[0].posterior",
     "expected costs or a posterior, got both; leave one out"),
    (nbest({"graph_cost": math.nan, "acoustic_cost": 1.0}), "nbest.hypotheses[0].graph_cost",
     f"expected {NUMBER}, got nan; {UNKNOWN}"),
    (nbest({"graph_cost": 1.0, "acoustic_cost": math.inf}), "nbest.hypotheses[0].acoustic_cost",
     f"expected {NUMBER}, got inf; {UNKNOWN}"),
    (nbest({"posterior": 1.1}), "nbest.hypotheses[0].posterior",
     f"expected a number from 0 to 1, got 1.1; {UNKNOWN}"),
    (nbest({"posterior": 0.0}), "nbest.hypotheses[0].posterior",
     "expected posteriors of which one is above 0, got only 0; leave them out"),
    (nbest(COSTS, acoustic_scale=-1.0), "nbest.acoustic_scale",
     f"expected a number of at least 0, got -1; {UNKNOWN}"),
    (nbest(COSTS, decoder="other"), "nbest.decoder",
     "expected a decoder of this server (mini), got 'other'; ask GetInfo for the names"),
    # Lattice
    (lattice(data=b"", decoder="other"), "lattice.decoder",
     "expected a decoder of this server (mini), got 'other'; ask GetInfo for the names"),
    (lattice(acoustic_scale=math.nan), "lattice.acoustic_scale",
     f"expected a number of at least 0, got nan; {UNKNOWN}"),
    (lattice(start_s=math.inf), "lattice.start_s", f"expected {NUMBER}, got inf; {UNKNOWN}"),
    # Audio
    (sound(data=b"ab"), "audio.encoding",
     "expected ENCODING_LINEAR16 or ENCODING_FILE, got ENCODING_UNSPECIFIED; say how the bytes are to be read"),
    (sound(data=b"ab", encoding=9), "audio.encoding",
     "expected ENCODING_LINEAR16 or ENCODING_FILE, got 9; say how the bytes are to be read"),
    (sound(data=b"ab", encoding=LINEAR16), "audio.sample_rate_hz",
     "expected samples a second above 0 for ENCODING_LINEAR16, got 0; give the rate the sound was recorded at"),
    (sound(data=b"abc", encoding=LINEAR16, sample_rate_hz=8000), "audio.data",
     "expected 16-bit samples, got an odd number of bytes (3); send whole samples"),
    (sound(encoding=LINEAR16, sample_rate_hz=8000), "audio.data",
     "expected sound, got no samples; leave the audio out where there is none"),
    (sound(data=stereo(), encoding=FILE), "audio.data",
     ("expected one channel, got 2; take one out, for instance by: sox in.wav out.wav remix 1 "
     "(in a wav.scp: sox in.wav -t wav - remix 1 |)")),
    (sound(data=b"/etc/passwd", encoding=FILE), "audio.data",
     ("expected a whole WAV, FLAC or OGG file, got 11 bytes that do not decode (Format not recognised); "
     "convert it, for instance by: sox in.mp3 out.wav")),
    (sound(data=mono(), encoding=FILE, sample_rate_hz=16000), "audio.sample_rate_hz",
     "expected the file's own 8000, got 16000; leave it out for ENCODING_FILE"),
    (sound(data=mono(), encoding=FILE, start_s=math.nan), "audio.start_s", f"expected {NUMBER}, got nan; {UNKNOWN}"),
    # Options
    (pb.PunctuateRequest(text="so", options=pb.Options(model="x")), "options.model",
     "expected a model of this server (tiny), got 'x'; ask GetInfo for the names"),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "field", "text"), REFUSED, ids=lambda v: v if isinstance(v, str) else "")
def test_a_bad_request_is_refused_with_its_field(
    stub: pb_grpc.PunctuationStub, request_: pb.PunctuateRequest, field: str, text: str
) -> None:
    got_field, got_text = refused(stub, request_)
    assert got_field == field
    assert got_text == f"{field}: {text}"


@pytest.mark.parametrize(
    "data",
    [b"", b"no lattice", b"/etc/passwd", b"cat /etc/passwd|", b"\xd6\xfd\xb2\x7e\x00\x00"],
)
def test_an_unreadable_lattice_is_refused_and_opens_nothing(stub: pb_grpc.PunctuationStub, data: bytes) -> None:
    field, text = refused(stub, lattice(data=data))
    assert field == "lattice.data"
    assert text.startswith("lattice.data: ")
    assert not text.startswith("lattice.data: lattice.data")
    assert "expected" in text
    assert "root:" not in text


def test_a_lattice_without_an_end_is_refused(stub: pb_grpc.PunctuationStub) -> None:
    assert refused(stub, lattice(data=b"0 1 5 0.5,0.5,1_2\n")) == (
        "lattice.data",
        "lattice.data: byte 0: the lattice has no path to a final state; was decoding cut off?",
    )


def test_a_long_bad_word_does_not_break_the_answer(stub: pb_grpc.PunctuationStub) -> None:
    field, text = refused(stub, words({"word": "é " * 5000}))
    assert field == "transcript.words[0].word"
    assert len(text) < 500


def test_words_that_step_back_a_little_are_taken(stub: pb_grpc.PunctuationStub) -> None:
    answer = stub.Punctuate(words(T, {"start_s": 0.9, "duration_s": 0.1}), timeout=60)
    assert [w.word.start_s for w in answer.words] == [1.0, 0.9]


def test_left_context_may_overlap_in_time(stub: pb_grpc.PunctuationStub) -> None:
    request = words(T)
    request.left_context.extend([pb.Word(word="a", start_s=3.0, duration_s=1.0), pb.Word(word="b", **T)])
    assert len(stub.Punctuate(request, timeout=60).words) == 1


def test_a_server_without_decoders_says_so() -> None:
    with (
        running_server({"tiny": Punctuator(tiny_checkpoint("none"))}) as address,
        grpc.insecure_channel(address) as channel,
    ):
        stub = pb_grpc.PunctuationStub(channel)
        assert refused(stub, lattice(data=b"x")) == (
            "lattice.decoder",
            "lattice.decoder: expected a decoder of this server (it has none), got ''; ask GetInfo for the names",
        )
        assert refused(stub, nbest(COSTS)) == (
            "nbest.acoustic_scale",
            (
                "nbest.acoustic_scale: expected a scale for the acoustic costs, got none, and this server has no "
                "decoder; give the scale that the decoder used"
            ),
        )
        assert len(stub.Punctuate(nbest({"posterior": 0.5}, {"posterior": 0.2}), timeout=60).words) == 1

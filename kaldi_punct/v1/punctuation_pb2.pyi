from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Case(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CASE_UNSPECIFIED: _ClassVar[Case]
    CASE_LOWER: _ClassVar[Case]
    CASE_CAPITALIZED: _ClassVar[Case]
    CASE_UPPER: _ClassVar[Case]
    CASE_MIXED: _ClassVar[Case]
CASE_UNSPECIFIED: Case
CASE_LOWER: Case
CASE_CAPITALIZED: Case
CASE_UPPER: Case
CASE_MIXED: Case

class PunctuateRequest(_message.Message):
    __slots__ = ("utt_id", "transcript", "nbest", "lattice", "text", "audio", "options", "left_context")
    UTT_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIPT_FIELD_NUMBER: _ClassVar[int]
    NBEST_FIELD_NUMBER: _ClassVar[int]
    LATTICE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    LEFT_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    utt_id: str
    transcript: Transcript
    nbest: NBest
    lattice: Lattice
    text: str
    audio: Audio
    options: Options
    left_context: _containers.RepeatedCompositeFieldContainer[Word]
    def __init__(self, utt_id: _Optional[str] = ..., transcript: _Optional[_Union[Transcript, _Mapping]] = ..., nbest: _Optional[_Union[NBest, _Mapping]] = ..., lattice: _Optional[_Union[Lattice, _Mapping]] = ..., text: _Optional[str] = ..., audio: _Optional[_Union[Audio, _Mapping]] = ..., options: _Optional[_Union[Options, _Mapping]] = ..., left_context: _Optional[_Iterable[_Union[Word, _Mapping]]] = ...) -> None: ...

class Transcript(_message.Message):
    __slots__ = ("words",)
    WORDS_FIELD_NUMBER: _ClassVar[int]
    words: _containers.RepeatedCompositeFieldContainer[Word]
    def __init__(self, words: _Optional[_Iterable[_Union[Word, _Mapping]]] = ...) -> None: ...

class Word(_message.Message):
    __slots__ = ("word", "start_s", "duration_s", "confidence", "spk_id")
    WORD_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    SPK_ID_FIELD_NUMBER: _ClassVar[int]
    word: str
    start_s: float
    duration_s: float
    confidence: float
    spk_id: str
    def __init__(self, word: _Optional[str] = ..., start_s: _Optional[float] = ..., duration_s: _Optional[float] = ..., confidence: _Optional[float] = ..., spk_id: _Optional[str] = ...) -> None: ...

class NBest(_message.Message):
    __slots__ = ("hypotheses", "acoustic_scale", "decoder")
    HYPOTHESES_FIELD_NUMBER: _ClassVar[int]
    ACOUSTIC_SCALE_FIELD_NUMBER: _ClassVar[int]
    DECODER_FIELD_NUMBER: _ClassVar[int]
    hypotheses: _containers.RepeatedCompositeFieldContainer[Hypothesis]
    acoustic_scale: float
    decoder: str
    def __init__(self, hypotheses: _Optional[_Iterable[_Union[Hypothesis, _Mapping]]] = ..., acoustic_scale: _Optional[float] = ..., decoder: _Optional[str] = ...) -> None: ...

class Hypothesis(_message.Message):
    __slots__ = ("words", "graph_cost", "acoustic_cost", "posterior")
    WORDS_FIELD_NUMBER: _ClassVar[int]
    GRAPH_COST_FIELD_NUMBER: _ClassVar[int]
    ACOUSTIC_COST_FIELD_NUMBER: _ClassVar[int]
    POSTERIOR_FIELD_NUMBER: _ClassVar[int]
    words: _containers.RepeatedCompositeFieldContainer[Word]
    graph_cost: float
    acoustic_cost: float
    posterior: float
    def __init__(self, words: _Optional[_Iterable[_Union[Word, _Mapping]]] = ..., graph_cost: _Optional[float] = ..., acoustic_cost: _Optional[float] = ..., posterior: _Optional[float] = ...) -> None: ...

class Lattice(_message.Message):
    __slots__ = ("data", "decoder", "acoustic_scale", "start_s")
    DATA_FIELD_NUMBER: _ClassVar[int]
    DECODER_FIELD_NUMBER: _ClassVar[int]
    ACOUSTIC_SCALE_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    decoder: str
    acoustic_scale: float
    start_s: float
    def __init__(self, data: _Optional[bytes] = ..., decoder: _Optional[str] = ..., acoustic_scale: _Optional[float] = ..., start_s: _Optional[float] = ...) -> None: ...

class Audio(_message.Message):
    __slots__ = ("data", "encoding", "sample_rate_hz", "start_s")
    class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ENCODING_UNSPECIFIED: _ClassVar[Audio.Encoding]
        ENCODING_LINEAR16: _ClassVar[Audio.Encoding]
        ENCODING_FILE: _ClassVar[Audio.Encoding]
    ENCODING_UNSPECIFIED: Audio.Encoding
    ENCODING_LINEAR16: Audio.Encoding
    ENCODING_FILE: Audio.Encoding
    DATA_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    encoding: Audio.Encoding
    sample_rate_hz: int
    start_s: float
    def __init__(self, data: _Optional[bytes] = ..., encoding: _Optional[_Union[Audio.Encoding, str]] = ..., sample_rate_hz: _Optional[int] = ..., start_s: _Optional[float] = ...) -> None: ...

class Options(_message.Message):
    __slots__ = ("model", "punctuation", "capitalization", "label_probabilities")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PUNCTUATION_FIELD_NUMBER: _ClassVar[int]
    CAPITALIZATION_FIELD_NUMBER: _ClassVar[int]
    LABEL_PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    model: str
    punctuation: bool
    capitalization: bool
    label_probabilities: bool
    def __init__(self, model: _Optional[str] = ..., punctuation: bool = ..., capitalization: bool = ..., label_probabilities: bool = ...) -> None: ...

class PunctuateResponse(_message.Message):
    __slots__ = ("utt_id", "text", "words", "sentences", "info")
    UTT_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    utt_id: str
    text: str
    words: _containers.RepeatedCompositeFieldContainer[PunctuatedWord]
    sentences: _containers.RepeatedCompositeFieldContainer[Sentence]
    info: ResponseInfo
    def __init__(self, utt_id: _Optional[str] = ..., text: _Optional[str] = ..., words: _Optional[_Iterable[_Union[PunctuatedWord, _Mapping]]] = ..., sentences: _Optional[_Iterable[_Union[Sentence, _Mapping]]] = ..., info: _Optional[_Union[ResponseInfo, _Mapping]] = ...) -> None: ...

class PunctuatedWord(_message.Message):
    __slots__ = ("word", "written", "mark", "case", "mark_probability", "case_probability", "label_probabilities")
    WORD_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    CASE_FIELD_NUMBER: _ClassVar[int]
    MARK_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    CASE_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    LABEL_PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    word: Word
    written: str
    mark: str
    case: Case
    mark_probability: float
    case_probability: float
    label_probabilities: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, word: _Optional[_Union[Word, _Mapping]] = ..., written: _Optional[str] = ..., mark: _Optional[str] = ..., case: _Optional[_Union[Case, str]] = ..., mark_probability: _Optional[float] = ..., case_probability: _Optional[float] = ..., label_probabilities: _Optional[_Iterable[float]] = ...) -> None: ...

class Sentence(_message.Message):
    __slots__ = ("text", "first_word", "n_words", "start_s", "end_s", "spk_id")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FIRST_WORD_FIELD_NUMBER: _ClassVar[int]
    N_WORDS_FIELD_NUMBER: _ClassVar[int]
    START_S_FIELD_NUMBER: _ClassVar[int]
    END_S_FIELD_NUMBER: _ClassVar[int]
    SPK_ID_FIELD_NUMBER: _ClassVar[int]
    text: str
    first_word: int
    n_words: int
    start_s: float
    end_s: float
    spk_id: str
    def __init__(self, text: _Optional[str] = ..., first_word: _Optional[int] = ..., n_words: _Optional[int] = ..., start_s: _Optional[float] = ..., end_s: _Optional[float] = ..., spk_id: _Optional[str] = ...) -> None: ...

class ResponseInfo(_message.Message):
    __slots__ = ("model", "model_version", "queue_ms", "inference_ms", "used_times", "used_audio", "n_hypotheses")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_MS_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_MS_FIELD_NUMBER: _ClassVar[int]
    USED_TIMES_FIELD_NUMBER: _ClassVar[int]
    USED_AUDIO_FIELD_NUMBER: _ClassVar[int]
    N_HYPOTHESES_FIELD_NUMBER: _ClassVar[int]
    model: str
    model_version: str
    queue_ms: float
    inference_ms: float
    used_times: bool
    used_audio: bool
    n_hypotheses: int
    def __init__(self, model: _Optional[str] = ..., model_version: _Optional[str] = ..., queue_ms: _Optional[float] = ..., inference_ms: _Optional[float] = ..., used_times: bool = ..., used_audio: bool = ..., n_hypotheses: _Optional[int] = ...) -> None: ...

class GetInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetInfoResponse(_message.Message):
    __slots__ = ("version", "models", "decoders", "max_message_bytes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    DECODERS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    version: str
    models: _containers.RepeatedCompositeFieldContainer[ModelInfo]
    decoders: _containers.RepeatedScalarFieldContainer[str]
    max_message_bytes: int
    def __init__(self, version: _Optional[str] = ..., models: _Optional[_Iterable[_Union[ModelInfo, _Mapping]]] = ..., decoders: _Optional[_Iterable[str]] = ..., max_message_bytes: _Optional[int] = ...) -> None: ...

class ModelInfo(_message.Message):
    __slots__ = ("name", "version", "language", "marks", "hears", "uses_times")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    HEARS_FIELD_NUMBER: _ClassVar[int]
    USES_TIMES_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    language: str
    marks: _containers.RepeatedScalarFieldContainer[str]
    hears: bool
    uses_times: bool
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., language: _Optional[str] = ..., marks: _Optional[_Iterable[str]] = ..., hears: bool = ..., uses_times: bool = ...) -> None: ...

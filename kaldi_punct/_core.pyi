"""Types of the native core (csrc/bindings.cc)."""

class Lattice:
    """A lattice as read; never changes."""

    @property
    def n_states(self) -> int: ...
    @property
    def n_arcs(self) -> int: ...
    @property
    def n_frames(self) -> int:
        """Frames of the longest path."""

    @property
    def origin(self) -> str:
        """Where it was read, ``<archive>: <key>: byte <offset>``."""

def parse(data: bytes, origin: str) -> Lattice: ...
def write(lattice: Lattice, binary: bool, compact: bool) -> bytes: ...

class ArchiveReader:
    """Reads entries from bytes that arrive in pieces."""

    def __init__(self, name: str, has_keys: bool) -> None: ...
    def feed(self, data: bytes) -> None: ...
    def end(self) -> None:
        """Says that no more bytes will come."""

    def next(self) -> tuple[bytes, Lattice | str] | None:
        """Key and lattice, or key and error text; None if more bytes are needed or none are left."""

    @property
    def n_pending(self) -> int:
        """Bytes held that belong to an unfinished entry."""

class Path:
    """A path through a lattice; costs as csrc/paths.h says."""

    @property
    def words(self) -> list[int]: ...
    @property
    def transition_ids(self) -> list[int]: ...
    @property
    def graph_cost(self) -> float: ...
    @property
    def acoustic_cost(self) -> float: ...
    @property
    def total_cost(self) -> float: ...

class Scales:
    def __init__(self, lm: float, acoustic: float, word_ins_penalty: float) -> None: ...

def best_paths(lattice: Lattice, n: int, scales: Scales) -> list[Path]: ...
def total_cost_of_all(lattice: Lattice, scales: Scales) -> float: ...
def rescaled(lattice: Lattice, scales: Scales) -> Lattice: ...
def pruned(lattice: Lattice, scales: Scales, beam: float) -> Lattice: ...
def connected(lattice: Lattice) -> Lattice: ...
def compacted(lattice: Lattice) -> Lattice: ...
def spelled_out(lattice: Lattice) -> Lattice: ...
def best_lattices(lattice: Lattice, n: int, scales: Scales) -> list[Lattice]: ...
def is_linear(lattice: Lattice) -> bool: ...

class ArcPosterior:
    """How likely an arc is; as csrc/posteriors.h says."""

    @property
    def first_frame(self) -> int: ...
    @property
    def word(self) -> int: ...
    @property
    def posterior(self) -> float: ...
    @property
    def transition_ids(self) -> list[int]: ...

def arc_posteriors(lattice: Lattice, scales: Scales, min_post: float) -> list[ArcPosterior]: ...
def depth(lattice: Lattice) -> float: ...
def depth_per_frame(lattice: Lattice) -> list[int]: ...

class OraclePath:
    @property
    def words(self) -> list[int]: ...
    @property
    def n_correct(self) -> int: ...
    @property
    def n_substitutions(self) -> int: ...
    @property
    def n_insertions(self) -> int: ...
    @property
    def n_deletions(self) -> int: ...

def oracle_path(lattice: Lattice, reference: list[int], wildcards: list[int], scales: Scales) -> OraclePath | None: ...

class TransitionModel:
    def __init__(self, data: bytes, name: str) -> None: ...
    @property
    def n_transition_ids(self) -> int: ...
    def transition(self, tid: int) -> tuple[int, bool, bool]:
        """Phone, whether the transition ends the phone, whether it is a self-loop."""

class WordBoundary:
    def __init__(self, data: bytes, name: str) -> None: ...

class Alignment:
    @property
    def segments(self) -> list[tuple[int, int, int]]:
        """Word-id (0: silence or an unlabelled part of a word), first frame, number of frames; end to end."""

    @property
    def n_unaligned(self) -> int:
        """Words at the end that no frame is left for."""

    @property
    def problem(self) -> str:
        """What is odd about the path; empty if nothing."""

class WordAligner:
    def __init__(self, model: TransitionModel, boundary: WordBoundary, reorder: bool) -> None: ...
    def align(self, path: Path) -> Alignment: ...

class Lexicon:
    def __init__(self, data: bytes, name: str) -> None: ...

class LexiconAligner:
    def __init__(self, model: TransitionModel, lexicon: Lexicon, reorder: bool) -> None: ...
    def align(self, path: Path) -> Alignment: ...

class PhoneAligner:
    def __init__(self, model: TransitionModel, reorder: bool) -> None: ...
    def align(self, path: Path) -> Alignment:
        """Phones in place of words."""

def align_words(
    lattice: Lattice, aligner: WordAligner, silence_label: int, partial_word_label: int, max_expand: float
) -> tuple[Lattice, str]:
    """The lattice with an arc for each word and silence, and what is odd about it."""

def align_lexicon(
    lattice: Lattice, aligner: LexiconAligner, partial_word_label: int, max_expand: float
) -> tuple[Lattice, str]: ...
def align_phones(
    lattice: Lattice, aligner: PhoneAligner, remove_epsilons: bool, replace_words: bool
) -> tuple[Lattice, str]: ...

class Sausage:
    """What stands at each place of an utterance (csrc/mbr.h). Times are in frames."""

    @property
    def bins(self) -> list[tuple[float, float, list[tuple[int, float, float, float]]]]:
        """Begin, end, and words with posterior, begin and end, likeliest first; word 0 is none."""

    @property
    def one_best(self) -> list[tuple[int, float, float, float]]:
        """Word, confidence, begin, end."""

    @property
    def bayes_risk(self) -> float: ...
    @property
    def is_settled(self) -> bool: ...

def decode_mbr(
    lattice: Lattice, scales: Scales, decode_mbr: bool, print_silence: bool, words: list[int] | None
) -> Sausage | None: ...

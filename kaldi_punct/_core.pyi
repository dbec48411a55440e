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

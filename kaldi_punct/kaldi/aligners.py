"""What finds the frames of words and phones: by the place of each phone in its word, or by a lexicon of pronunciations.

Nothing here opens a file: models and tables come as bytes.
"""

from __future__ import annotations

from kaldi_punct import _core
from kaldi_punct._core import Lattice
from kaldi_punct.errors import LatticeError

__all__ = ["Aligner", "LexiconAligner", "PhoneAligner", "WordAligner"]


class PhoneAligner:
    """Finds the frames of each phone of a path, as lattice-align-phones does.

    Args:
        transition_model: as of ``WordAligner``, or one that was read already.
        model_name: the model's name in error texts.
        reorder: as of ``WordAligner``.

    Raises:
        FormatError: it is no transition model.
    """

    def __init__(
        self,
        transition_model: bytes | _core.TransitionModel,
        model_name: str = "transition model",
        *,
        reorder: bool = True,
    ) -> None:
        if isinstance(transition_model, bytes):
            transition_model = _core.TransitionModel(transition_model, model_name)
        self.model = transition_model
        self.core = _core.PhoneAligner(self.model, reorder)

    def align(self, path: _core.Path) -> _core.Alignment:
        """The path's frames cut into phones, end to end; the segments' words are phone-ids.

        Raises:
            LatticeError: the path has transition-ids that the model does not know.
        """
        return self.core.align(path)


class WordAligner:
    """Finds the frames of each word of a path, as lattice-align-words does.

    Args:
        transition_model: a final.mdl or the transition model alone (trans.mdl), binary or text.
        word_boundary: phones/word_boundary.int of the lang directory.
        model_name: the model's name in error texts.
        boundary_name: the word boundary file's.
        reorder: the graph was made with self-loops behind the transition out of the state (Kaldi's default).

    Raises:
        FormatError: one of the two is not what it should be.
    """

    def __init__(
        self,
        transition_model: bytes,
        word_boundary: bytes,
        model_name: str = "transition model",
        boundary_name: str = "word boundaries",
        *,
        reorder: bool = True,
    ) -> None:
        self.model = _core.TransitionModel(transition_model, model_name)
        boundary = _core.WordBoundary(word_boundary, boundary_name)
        self.core = _core.WordAligner(self.model, boundary, reorder)
        self.phones = PhoneAligner(self.model, reorder=reorder)

    def align(self, path: _core.Path) -> _core.Alignment:
        """The path's frames cut into words and silences, end to end.

        Raises:
            LatticeError: the path has transition-ids or phones that the model or the boundary file does not know.
        """
        return self.core.align(path)

    def align_lattice(
        self, lattice: Lattice, silence_label: int = 0, partial_word_label: int = 0, max_expand: float = 0.0
    ) -> tuple[Lattice, str]:
        """See ``aligned.align_words``, which checks the options."""
        try:
            return _core.align_words(lattice, self.core, silence_label, partial_word_label, max_expand)
        except LatticeError as e:
            raise LatticeError(f"{lattice.origin}: {e}") from e


class LexiconAligner:
    """Finds the frames of each word of a path, as lattice-align-words-lexicon does: phones need no place in the word.

    Args:
        transition_model: as of ``WordAligner``.
        align_lexicon: phones/align_lexicon.int of the lang directory: ``<word-id> <new-word-id> <phone-id> ...`` lines.
        model_name: the model's name in error texts.
        lexicon_name: the lexicon's.
        reorder: as of ``WordAligner``.

    Raises:
        FormatError: one of the two is not what it should be.
    """

    def __init__(
        self,
        transition_model: bytes,
        align_lexicon: bytes,
        model_name: str = "transition model",
        lexicon_name: str = "align lexicon",
        *,
        reorder: bool = True,
    ) -> None:
        self.model = _core.TransitionModel(transition_model, model_name)
        self.core = _core.LexiconAligner(self.model, _core.Lexicon(align_lexicon, lexicon_name), reorder)
        self.phones = PhoneAligner(self.model, reorder=reorder)

    def align(self, path: _core.Path) -> _core.Alignment:
        """As ``WordAligner.align``; words are the path's own, whatever the lexicon puts in their place.

        Raises:
            LatticeError: the path has transition-ids or words that the model or the lexicon does not know.
        """
        return self.core.align(path)

    def align_lattice(
        self, lattice: Lattice, partial_word_label: int = 0, max_expand: float = 0.0
    ) -> tuple[Lattice, str]:
        """See ``aligned.align_lexicon``, which checks the options."""
        try:
            return _core.align_lexicon(lattice, self.core, partial_word_label, max_expand)
        except LatticeError as e:
            raise LatticeError(f"{lattice.origin}: {e}") from e


Aligner = WordAligner | LexiconAligner

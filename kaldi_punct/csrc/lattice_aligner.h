// Moves the words of a whole lattice onto their frames: Kaldi's lattice-align-words and lattice-align-phones.
//
// Paths are followed together: two that meet in a state, with the same frames and words read but not put out, go on as
// one. So the work grows with the lattice, not with its paths.
#pragma once

#include <cstdint>

#include "alignment.h"
#include "word_aligner.h"

namespace kaldi_punct {

struct WordLabels {
  int32_t silence = 0;
  int32_t partial_word = 0;  // on what a forced end cut off, where no word is left for it
};

struct PhoneOptions {
  bool reorder = true;
  bool remove_epsilons = true;  // an arc may then hold several phones, unless replace_words
  bool replace_words = false;   // by phones
};

// An arc for each word and silence, with its frames. A forced end gives a problem and goes on, as in Kaldi.
// max_expand: as Kaldi's; a LatticeError if more than 1000 + max_expand * states come up (0: only what memory allows).
// Throws LatticeError also for a transition-id or phone that the aligner does not know.
AlignedLattice align_words(const Lattice& lattice, const WordAligner& aligner, const WordLabels& labels,
                           double max_expand);

// Of align_phones before epsilons are removed; `order` is filled, the states are in none. problem: as of SegmentCutter.
Lattice phone_graph(const Lattice& lattice, const TidTable& table, const PhoneOptions& options, const char** problem);

// Arcs end where phones do; words stay where they are, if they stay.
AlignedLattice align_phones(const Lattice& lattice, const TidTable& table, const PhoneOptions& options);

}  // namespace kaldi_punct

// Moves words onto their frames by their pronunciations, as Kaldi's lattice-align-words-lexicon does
// (lat/word-align-lattice-lexicon.cc). Phones need not tell their place in the word.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "alignment.h"
#include "lexicon.h"
#include "tid_table.h"
#include "transition_model.h"

namespace kaldi_punct {

struct LexiconOptions {
  int32_t partial_word = 0;  // label of what a forced end cut off, where no word is left for it
  double max_expand = 0;     // as of align_words; counts the states of the phone-aligned lattice
  bool keeps_words = false;  // the words of the lattice stay, whatever the lexicon puts in their place
};

class LexiconAligner {
 public:
  // reorder: the graph was made with --reorder=true, so that self-loops follow the transition out of a state.
  LexiconAligner(const TransitionModel& model, std::shared_ptr<const Lexicon> lexicon, bool reorder = true)
      : table_(model, nullptr), lexicon_(std::move(lexicon)), reorder_(reorder) {}

  // An arc for each word and silence, with its frames. Throws LatticeError for a transition-id or word that nobody
  // knows, or if too many states come up.
  AlignedLattice align(const Lattice& lattice, const LexiconOptions& options) const;

  // The same for a path; see WordAligner. Of several ways to deal out the frames the first is taken.
  Alignment align(const std::vector<int32_t>& words, const std::vector<int32_t>& tids) const;

 private:
  TidTable table_;
  std::shared_ptr<const Lexicon> lexicon_;
  bool reorder_;
};

}  // namespace kaldi_punct

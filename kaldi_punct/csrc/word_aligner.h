// Cuts the frames of a path into words and silences, as Kaldi's lattice-align-words does.
//
// In a lattice the words lie somewhere near their frames, not on them. Word-position-dependent phones tell where each
// word begins and ends; the words are then dealt out in order.
#pragma once

#include <cstdint>
#include <vector>

#include "alignment.h"
#include "tid_table.h"
#include "transition_model.h"
#include "word_boundary.h"

namespace kaldi_punct {

class WordAligner {
 public:
  // reorder: the graph was made with --reorder=true, so that self-loops follow the transition out of a state.
  WordAligner(const TransitionModel& model, const WordBoundary& boundary, bool reorder = true)
      : table_(model, &boundary), reorder_(reorder) {}

  const TidTable& table() const { return table_; }
  bool reorder() const { return reorder_; }

  // words: of the path, without zeros. tids: one a frame. Throws LatticeError for a transition-id or phone that the
  // model or the boundaries do not know.
  Alignment align(const std::vector<int32_t>& words, const std::vector<int32_t>& tids) const;

 private:
  TidTable table_;
  bool reorder_;
};

}  // namespace kaldi_punct

// Cuts the frames of a path into phones, as Kaldi's lattice-align-phones does.
#pragma once

#include <cstdint>
#include <vector>

#include "alignment.h"
#include "tid_table.h"
#include "transition_model.h"

namespace kaldi_punct {

class PhoneAligner {
 public:
  // reorder: the graph was made with --reorder=true, so that self-loops follow the transition out of a state.
  explicit PhoneAligner(const TransitionModel& model, bool reorder = true)
      : table_(model, nullptr), reorder_(reorder) {}

  const TidTable& table() const { return table_; }
  bool reorder() const { return reorder_; }

  // tids: one a frame. The segments' words are phones. Throws LatticeError for a transition-id that the model does not
  // know.
  Alignment align(const std::vector<int32_t>& tids) const;

 private:
  TidTable table_;
  bool reorder_;
};

}  // namespace kaldi_punct

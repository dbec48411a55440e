// What aligners ask of each transition-id, side by side in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "transition_model.h"
#include "word_boundary.h"

namespace kaldi_punct {

struct TidInfo {
  int32_t phone = 0;
  PhoneRole role = PhoneRole::kUnknown;
  bool is_final = false;  // ends the phone
  bool is_self_loop = false;
};

class TidTable {
 public:
  // boundary: null if nobody asks for roles.
  TidTable(const TransitionModel& model, const WordBoundary* boundary);

  const TidInfo& operator[](int32_t tid) const { return infos_[static_cast<size_t>(tid)]; }

  // Throws LatticeError for a transition-id that the model does not know, or whose phone has no role though roles were
  // given. Only tids that passed may be looked up.
  void check(const std::vector<int32_t>& tids) const;

 private:
  bool has_roles_;
  std::vector<TidInfo> infos_;  // by transition-id; 0 is none
};

}  // namespace kaldi_punct

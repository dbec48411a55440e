// A lattice while it is made: states and arcs are added in any order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lattice.h"

namespace kaldi_punct {

class LatticeDraft {
 public:
  // origin: goes into the lattice, for error texts.
  explicit LatticeDraft(std::string origin) { lattice_.origin = std::move(origin); }

  int32_t add_state();
  int32_t n_states() const { return static_cast<int32_t>(lattice_.states.size()); }
  void set_start(int32_t state) { lattice_.start = state; }

  // A weight of this draft; its transition-ids are copied.
  Weight weight(double graph, double acoustic, const int32_t* tids = nullptr, size_t n_tids = 0);
  Weight weight(const Weight& of_other, const Lattice& other);

  // Both states must exist when finish() is called.
  void add_arc(int32_t from, int32_t word, int32_t next, const Weight& weight);
  void set_final(int32_t state, const Weight& weight);

  // The lattice; arcs of a state stay in the order in which they were added. Throws LatticeError for a cycle.
  Lattice finish();

 private:
  Lattice lattice_;            // its arcs stand as they were added
  std::vector<int32_t> from_;  // of each arc
};

}  // namespace kaldi_punct

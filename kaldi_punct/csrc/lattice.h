// A word lattice in memory: Kaldi's CompactLattice, with the arrays of all states laid end to end.
//
// Kaldi's (state-level) Lattice is held in the same form: an arc then has one transition-id or none. Costs are Kaldi's:
// negated natural logarithms, unscaled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kaldi_punct {

// Two costs and the frames (transition-ids, one each) that an arc or a final state stands for.
struct Weight {
  double graph = 0;
  double acoustic = 0;
  uint64_t first_tid = 0;  // index into Lattice::tids
  uint32_t n_tids = 0;
};

struct Arc {
  int32_t word = 0;  // 0: no word
  int32_t next = 0;  // state
  Weight weight;
};

struct State {
  uint64_t first_arc = 0;  // index into Lattice::arcs
  uint32_t n_arcs = 0;
  bool is_final = false;
  Weight final_weight;
};

struct Lattice {
  int32_t start = -1;           // -1: no state at all
  bool is_state_level = false;  // came in Kaldi's state-level form: one frame an arc
  std::vector<State> states;
  std::vector<Arc> arcs;  // those of state 0, of state 1, ...
  std::vector<int32_t> tids;
  std::vector<int32_t> order;  // the states, each before those that its arcs lead to
  std::string origin;          // "<archive>: <key>: byte <offset>", for error texts

  // Fills `order`. Returns a state on a cycle, or -1 if there is none.
  int32_t sort_states();

  // Frames of the longest path.
  int64_t n_frames() const;
};

}  // namespace kaldi_punct

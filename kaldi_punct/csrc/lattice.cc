#include "lattice.h"

#include <algorithm>

namespace kaldi_punct {

int32_t Lattice::sort_states() {
  std::vector<uint32_t> n_in(states.size(), 0);
  for (const Arc& arc : arcs) ++n_in[arc.next];
  order.clear();
  order.reserve(states.size());
  for (size_t s = 0; s < states.size(); ++s)
    if (n_in[s] == 0) order.push_back(static_cast<int32_t>(s));
  for (size_t i = 0; i < order.size(); ++i) {
    const State& state = states[order[i]];
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a)
      if (--n_in[arcs[a].next] == 0) order.push_back(arcs[a].next);
  }
  if (order.size() == states.size()) return -1;
  return static_cast<int32_t>(std::find_if(n_in.begin(), n_in.end(), [](uint32_t n) { return n != 0; }) - n_in.begin());
}

int64_t Lattice::n_frames() const {
  if (start < 0) return 0;
  std::vector<int64_t> frames(states.size(), -1);
  frames[start] = 0;
  int64_t longest = 0;
  for (int32_t s : order) {
    if (frames[s] < 0) continue;
    const State& state = states[s];
    if (state.is_final) longest = std::max<int64_t>(longest, frames[s] + state.final_weight.n_tids);
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a)
      frames[arcs[a].next] = std::max<int64_t>(frames[arcs[a].next], frames[s] + arcs[a].weight.n_tids);
  }
  return longest;
}

}  // namespace kaldi_punct

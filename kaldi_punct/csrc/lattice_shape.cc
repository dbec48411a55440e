#include "lattice_shape.h"

#include "lattice_draft.h"

namespace kaldi_punct {
namespace {

// The states that can be reached from the start.
std::vector<bool> reached_states(const Lattice& lattice) {
  std::vector<bool> reached(lattice.states.size(), false);
  if (lattice.start >= 0) reached[lattice.start] = true;
  for (int32_t s : lattice.order) {
    if (!reached[s]) continue;
    const State& state = lattice.states[s];
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) reached[lattice.arcs[a].next] = true;
  }
  return reached;
}

}  // namespace

std::vector<bool> useful_states(const Lattice& lattice) {
  std::vector<bool> reached = reached_states(lattice);
  std::vector<bool> useful(lattice.states.size(), false);
  for (auto s = lattice.order.rbegin(); s != lattice.order.rend(); ++s) {
    if (!reached[*s]) continue;
    const State& state = lattice.states[*s];
    bool ends = state.is_final;
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs && !ends; ++a)
      ends = useful[lattice.arcs[a].next];
    useful[*s] = ends;
  }
  return useful;
}

Lattice connected(const Lattice& lattice) {
  const std::vector<bool> useful = useful_states(lattice);
  std::vector<int32_t> number(lattice.states.size(), -1);
  int32_t n = 0;
  for (size_t s = 0; s < number.size(); ++s)
    if (useful[s]) number[s] = n++;
  return renumbered(lattice, number, n);
}

Lattice top_sorted(const Lattice& lattice) {
  std::vector<int32_t> number(lattice.states.size(), -1);
  int32_t n = 0;
  for (int32_t s : lattice.order) number[s] = n++;
  return renumbered(lattice, number, n);
}

Lattice renumbered(const Lattice& lattice, const std::vector<int32_t>& number, int32_t n_states) {
  LatticeDraft draft(lattice.origin);
  std::vector<int32_t> old_number(n_states);
  for (size_t s = 0; s < number.size(); ++s)
    if (number[s] >= 0) old_number[number[s]] = static_cast<int32_t>(s);
  for (int32_t s = 0; s < n_states; ++s) draft.add_state();
  for (int32_t s = 0; s < n_states; ++s) {
    const State& state = lattice.states[old_number[s]];
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice.arcs[a];
      if (number[arc.next] >= 0) draft.add_arc(s, arc.word, number[arc.next], draft.weight(arc.weight, lattice));
    }
    if (state.is_final) draft.set_final(s, draft.weight(state.final_weight, lattice));
  }
  if (lattice.start >= 0) draft.set_start(number[lattice.start]);
  Lattice out = draft.finish();
  out.is_state_level = lattice.is_state_level;
  return out;
}

}  // namespace kaldi_punct

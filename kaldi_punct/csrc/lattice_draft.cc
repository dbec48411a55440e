#include "lattice_draft.h"

#include <utility>

#include "errors.h"

namespace kaldi_punct {

int32_t LatticeDraft::add_state() {
  lattice_.states.emplace_back();
  return n_states() - 1;
}

Weight LatticeDraft::weight(double graph, double acoustic, const int32_t* tids, size_t n_tids) {
  Weight weight;
  weight.graph = graph;
  weight.acoustic = acoustic;
  weight.first_tid = lattice_.tids.size();
  weight.n_tids = static_cast<uint32_t>(n_tids);
  lattice_.tids.insert(lattice_.tids.end(), tids, tids + n_tids);
  return weight;
}

Weight LatticeDraft::weight(const Weight& of_other, const Lattice& other) {
  return weight(of_other.graph, of_other.acoustic, other.tids.data() + of_other.first_tid, of_other.n_tids);
}

void LatticeDraft::add_arc(int32_t from, int32_t word, int32_t next, const Weight& weight) {
  lattice_.arcs.push_back({word, next, weight});
  from_.push_back(from);
  ++lattice_.states[from].n_arcs;
}

void LatticeDraft::set_final(int32_t state, const Weight& weight) {
  lattice_.states[state].is_final = true;
  lattice_.states[state].final_weight = weight;
}

Lattice LatticeDraft::finish() {
  uint64_t n = 0;
  std::vector<uint64_t> place;  // where the next arc of each state goes
  place.reserve(lattice_.states.size());
  for (State& state : lattice_.states) {
    state.first_arc = n;
    place.push_back(n);
    n += state.n_arcs;
  }
  std::vector<Arc> arcs(lattice_.arcs.size());
  for (size_t a = 0; a < arcs.size(); ++a) arcs[place[from_[a]]++] = lattice_.arcs[a];
  lattice_.arcs = std::move(arcs);
  const int32_t on_cycle = lattice_.sort_states();
  if (on_cycle >= 0)
    throw LatticeError(
        lattice_.origin + ": expected a lattice without cycles, got one through state " + std::to_string(on_cycle), 0);
  return std::move(lattice_);
}

}  // namespace kaldi_punct

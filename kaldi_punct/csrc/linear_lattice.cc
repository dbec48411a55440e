#include "linear_lattice.h"

#include "lattice_draft.h"
#include "lattice_forms.h"

namespace kaldi_punct {

Lattice linear_lattice(const Lattice& lattice, const Path& path, const Scales& scales) {
  LatticeDraft draft(lattice.origin);
  int32_t state = draft.add_state(), from = lattice.start;
  draft.set_start(state);
  for (uint64_t a : path.arcs) {
    const Arc& arc = lattice.arcs[a];
    Weight weight = draft.weight(arc.weight, lattice);
    if (arc.word != 0) weight.graph += scales.word_ins_penalty;
    const int32_t next = draft.add_state();
    draft.add_arc(state, arc.word, next, weight);
    state = next;
    from = arc.next;
  }
  const Weight& last = lattice.states[from].final_weight;
  if (last.n_tids > 0) {  // as in the state-level form, where frames need an arc
    const int32_t next = draft.add_state();
    draft.add_arc(state, 0, next, draft.weight(last, lattice));
    draft.set_final(next, Weight());
  } else {
    draft.set_final(state, draft.weight(last, lattice));
  }
  return compacted(draft.finish());
}

std::vector<Lattice> best_lattices(const Lattice& lattice, size_t n, const Scales& scales) {
  std::vector<Lattice> out;
  for (const Path& path : best_paths(lattice, n, scales)) out.push_back(linear_lattice(lattice, path, scales));
  return out;
}

bool is_linear(const Lattice& lattice) {
  if (lattice.start < 0) return false;
  size_t n_seen = 1;
  for (int32_t s = lattice.start;; ++n_seen) {
    const State& state = lattice.states[s];
    if (state.is_final || state.n_arcs == 0)
      return state.is_final && state.n_arcs == 0 && n_seen == lattice.states.size();
    if (state.n_arcs != 1) return false;
    s = lattice.arcs[state.first_arc].next;
  }
}

}  // namespace kaldi_punct

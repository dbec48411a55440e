#include "lattice_forms.h"

#include "lattice_draft.h"
#include "lattice_shape.h"

namespace kaldi_punct {
namespace {

// From state `from`, one arc for each transition-id; the last leads to `next`, or to a new state where `next` is -1.
// Returns the state at the end.
int32_t add_chain(LatticeDraft& draft, const Lattice& lattice, int32_t from, int32_t word, const Weight& weight,
                  int32_t next) {
  double graph = weight.graph, acoustic = weight.acoustic;
  for (uint32_t i = 0; i < weight.n_tids; ++i) {
    const bool is_last = i + 1 == weight.n_tids;
    const int32_t to = is_last && next >= 0 ? next : draft.add_state();
    draft.add_arc(from, word, to, draft.weight(graph, acoustic, &lattice.tids[weight.first_tid + i], 1));
    from = to;
    word = 0;
    graph = acoustic = 0;
  }
  return from;
}

// Whether a state stands in the middle of a chain: one arc in, one without a word out, not final, not the start.
std::vector<bool> middle_states(const Lattice& lattice) {
  std::vector<uint32_t> n_in(lattice.states.size(), 0);
  for (const Arc& arc : lattice.arcs) ++n_in[arc.next];
  std::vector<bool> middle(lattice.states.size(), false);
  for (size_t s = 0; s < middle.size(); ++s) {
    const State& state = lattice.states[s];
    middle[s] = n_in[s] == 1 && state.n_arcs == 1 && !state.is_final && static_cast<int32_t>(s) != lattice.start &&
                lattice.arcs[state.first_arc].word == 0;
  }
  return middle;
}

}  // namespace

bool is_spelled_out(const Lattice& lattice) {
  for (const State& state : lattice.states)
    if (state.is_final && state.final_weight.n_tids > 0) return false;
  for (const Arc& arc : lattice.arcs)
    if (arc.weight.n_tids > 1) return false;
  return true;
}

Lattice spelled_out(const Lattice& lattice) {
  LatticeDraft draft(lattice.origin);
  const int32_t n = static_cast<int32_t>(lattice.states.size());
  for (int32_t s = 0; s < n; ++s) draft.add_state();
  draft.set_start(lattice.start);
  for (int32_t s = 0; s < n; ++s) {
    const State& state = lattice.states[s];
    if (state.is_final) {
      const Weight& weight = state.final_weight;
      const int32_t end = add_chain(draft, lattice, s, 0, weight, -1);
      const bool is_moved = weight.n_tids > 0;
      draft.set_final(end, draft.weight(is_moved ? 0 : weight.graph, is_moved ? 0 : weight.acoustic));
    }
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice.arcs[a];
      if (arc.weight.n_tids == 0)
        draft.add_arc(s, arc.word, arc.next, draft.weight(arc.weight.graph, arc.weight.acoustic));
      else
        add_chain(draft, lattice, s, arc.word, arc.weight, arc.next);
    }
  }
  Lattice out = draft.finish();
  out.is_state_level = true;
  return out;
}

Lattice compacted(const Lattice& lattice) {
  LatticeDraft draft(lattice.origin);
  if (lattice.start < 0) return draft.finish();
  const std::vector<bool> middle = middle_states(lattice);
  std::vector<int32_t> number(lattice.states.size(), -1);
  std::vector<int32_t> to_do = {lattice.start};
  number[lattice.start] = draft.add_state();
  draft.set_start(number[lattice.start]);
  std::vector<int32_t> tids;
  while (!to_do.empty()) {
    const int32_t s = to_do.back();
    to_do.pop_back();
    const State& state = lattice.states[s];
    if (state.is_final) draft.set_final(number[s], draft.weight(state.final_weight, lattice));
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc* arc = &lattice.arcs[a];
      const int32_t word = arc->word;
      double graph = 0, acoustic = 0;
      tids.clear();
      for (;; arc = &lattice.arcs[lattice.states[arc->next].first_arc]) {
        graph += arc->weight.graph;
        acoustic += arc->weight.acoustic;
        const auto begin = lattice.tids.begin() + static_cast<int64_t>(arc->weight.first_tid);
        tids.insert(tids.end(), begin, begin + arc->weight.n_tids);
        if (!middle[arc->next]) break;
      }
      int32_t& next = number[arc->next];
      if (next < 0) {
        next = draft.add_state();
        to_do.push_back(arc->next);
      }
      draft.add_arc(number[s], word, next, draft.weight(graph, acoustic, tids.data(), tids.size()));
    }
  }
  return top_sorted(draft.finish());
}

}  // namespace kaldi_punct

#include "lattice_costs.h"

#include <algorithm>
#include <cmath>

#include "errors.h"
#include "lattice_draft.h"
#include "lattice_shape.h"

namespace kaldi_punct {
namespace {

// The scaled cost as Kaldi finds it, in 32 bits: what lies on the edge of the beam falls to the same side.
double float_cost(const Weight& weight, bool has_word, const Scales& scales) {
  const double lm = static_cast<float>(scales.lm), acoustic = static_cast<float>(scales.acoustic);
  const double graph = weight.graph + (has_word ? scales.word_ins_penalty : 0);
  return static_cast<double>(static_cast<float>(lm * graph)) + static_cast<float>(acoustic * weight.acoustic);
}

// The least costs of the ways from the start to each state, and from each state to the end.
struct BestCosts {
  std::vector<double> forward, backward;
};

BestCosts best_costs(const Lattice& lattice, const Scales& scales) {
  BestCosts best;
  best.forward.assign(lattice.states.size(), HUGE_VAL);
  best.backward.assign(lattice.states.size(), HUGE_VAL);
  if (lattice.start >= 0) best.forward[lattice.start] = 0;
  for (int32_t s : lattice.order) {
    const State& state = lattice.states[s];
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice.arcs[a];
      double& next = best.forward[arc.next];
      next = std::min(next, best.forward[s] + float_cost(arc.weight, arc.word != 0, scales));
    }
  }
  for (auto s = lattice.order.rbegin(); s != lattice.order.rend(); ++s) {
    const State& state = lattice.states[*s];
    double& cost = best.backward[*s];
    if (state.is_final) cost = float_cost(state.final_weight, false, scales);
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice.arcs[a];
      cost = std::min(cost, float_cost(arc.weight, arc.word != 0, scales) + best.backward[arc.next]);
    }
  }
  return best;
}

void rescale(Weight& weight, bool has_word, const Scales& scales) {
  weight.graph = scales.lm * (weight.graph + (has_word ? scales.word_ins_penalty : 0));
  weight.acoustic *= scales.acoustic;
}

}  // namespace

Lattice rescaled(const Lattice& lattice, const Scales& scales) {
  for (double scale : {scales.lm, scales.acoustic, scales.word_ins_penalty})
    if (!std::isfinite(scale))
      throw LatticeError(lattice.origin + ": expected finite scales, got " + std::to_string(scale), 0);
  Lattice out = lattice;
  for (Arc& arc : out.arcs) rescale(arc.weight, arc.word != 0, scales);
  for (State& state : out.states)
    if (state.is_final) rescale(state.final_weight, false, scales);
  return out;
}

Lattice pruned(const Lattice& lattice, const Scales& scales, double beam) {
  if (!(beam > 0)) throw LatticeError(lattice.origin + ": expected a beam above 0, got " + std::to_string(beam), 0);
  const BestCosts best = best_costs(lattice, scales);
  const double cutoff = (lattice.start < 0 ? HUGE_VAL : best.backward[lattice.start]) + beam;
  LatticeDraft draft(lattice.origin);
  for (size_t s = 0; s < lattice.states.size(); ++s) draft.add_state();
  draft.set_start(lattice.start);
  for (int32_t s = 0; s < draft.n_states(); ++s) {
    const State& state = lattice.states[s];
    if (state.is_final && best.forward[s] + float_cost(state.final_weight, false, scales) <= cutoff)
      draft.set_final(s, draft.weight(state.final_weight, lattice));
    for (uint64_t a = state.first_arc; a < state.first_arc + state.n_arcs; ++a) {
      const Arc& arc = lattice.arcs[a];
      const double cost = float_cost(arc.weight, arc.word != 0, scales);
      if (best.forward[s] + (cost + best.backward[arc.next]) <= cutoff)
        draft.add_arc(s, arc.word, arc.next, draft.weight(arc.weight, lattice));
    }
  }
  Lattice out = draft.finish();
  out.is_state_level = lattice.is_state_level;
  return connected(out);
}

}  // namespace kaldi_punct

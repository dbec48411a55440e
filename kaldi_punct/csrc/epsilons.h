// Removes the arcs without a word, as OpenFst's fstrmepsilon does for Kaldi's compact lattices.
#pragma once

#include "lattice.h"

namespace kaldi_punct {

// A lattice of the same words and costs where each arc has a word (negative ones count too): what an epsilon arc holds
// goes onto the arcs and final weights behind it. Of arcs with the same word between the same states the best is kept.
// States that lead to no final state are dropped, the others come in topological order; no state: nothing is accepted.
//
// graph: `order` is filled, and every state can be reached. Throws LatticeError if far too many arcs come of it.
Lattice remove_epsilons(Lattice graph);

// Whether each state leads to a final one.
std::vector<bool> leads_to_final(const Lattice& graph);

// Whether a is better than b: less total cost, then less graph cost, then as CompactLatticeWeight's Compare says.
bool is_better(const Weight& a, const Weight& b, const std::vector<int32_t>& tids);

}  // namespace kaldi_punct

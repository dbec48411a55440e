// The same lattice with other states: those of no use dropped, or in another order.
#pragma once

#include <cstdint>
#include <vector>

#include "lattice.h"

namespace kaldi_punct {

// For each state, whether a path from the start to a final state goes through it.
std::vector<bool> useful_states(const Lattice& lattice);

// Without the states that no path from the start to a final state goes through, and their arcs; the others keep their
// order. Empty if there is no such path (OpenFst's Connect).
Lattice connected(const Lattice& lattice);

// States numbered so that every arc leads to a higher number; the start is state 0 where all states can be reached.
Lattice top_sorted(const Lattice& lattice);

// State s becomes number[s] of n_states, or goes (with all arcs from and to it) where that is -1.
Lattice renumbered(const Lattice& lattice, const std::vector<int32_t>& number, int32_t n_states);

}  // namespace kaldi_punct

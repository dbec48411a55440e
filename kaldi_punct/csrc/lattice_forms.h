// Kaldi's two forms of a lattice: compact (an arc holds a word and its frames) and state-level (an arc holds one
// frame).
#pragma once

#include "lattice.h"

namespace kaldi_punct {

// True if no arc holds more than one transition-id and no final state holds any, so that the state-level form can be
// written as the lattice stands.
bool is_spelled_out(const Lattice& lattice);

// The state-level form: a chain of new states for each string of transition-ids; word and costs lie on its first arc.
// The states of the lattice keep their numbers (fst::ConvertLattice in Kaldi's lattice-utils-inl.h).
Lattice spelled_out(const Lattice& lattice);

// The compact form: states in the middle of a chain without words go, their frames and costs move to the arc before
// (Factor and TopSort in Kaldi's factor-inl.h, lattice-utils-inl.h). States that cannot be reached go too.
Lattice compacted(const Lattice& lattice);

}  // namespace kaldi_punct

// The same lattice with other costs.
#pragma once

#include "lattice.h"
#include "paths.h"

namespace kaldi_punct {

// Graph costs, with the word insertion penalty on each word, times scales.lm; acoustic costs times scales.acoustic
// (lattice-add-penalty, then lattice-scale). Throws LatticeError for a scale that is no finite number.
Lattice rescaled(const Lattice& lattice, const Scales& scales);

// Without the arcs and final states that no path within `beam` of the best path's scaled cost uses; costs stay
// unscaled. Empty if no path leads to a final state (PruneLattice in Kaldi's lattice-functions.cc). Throws LatticeError
// for a beam that is not above 0.
Lattice pruned(const Lattice& lattice, const Scales& scales, double beam);

}  // namespace kaldi_punct

// Lattices of one path each, as lattice-to-nbest and lattice-1best write them.
#pragma once

#include <vector>

#include "lattice.h"
#include "paths.h"

namespace kaldi_punct {

// The path alone: an arc for each word, and one before them for frames that no word begins with. Costs are unscaled; a
// word insertion penalty is in the graph costs.
Lattice linear_lattice(const Lattice& lattice, const Path& path, const Scales& scales);

// best_paths() as such lattices.
std::vector<Lattice> best_lattices(const Lattice& lattice, size_t n, const Scales& scales);

// True if the lattice is one path and nothing else; an empty one is not.
bool is_linear(const Lattice& lattice);

}  // namespace kaldi_punct

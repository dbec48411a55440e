// How likely each arc of a lattice is, and how many arcs lie over each frame.
#pragma once

#include <cstdint>
#include <vector>

#include "lattice.h"
#include "paths.h"

namespace kaldi_punct {

struct ArcPosterior {
  int32_t first_frame = 0;
  int32_t word = 0;
  std::vector<int32_t> tids;
  double posterior = 0;  // share of all paths, by exp(-scaled cost), that go through the arc
};

// The first frame of each state: frames of the longest way to it; -1 where none leads there.
std::vector<int64_t> state_times(const Lattice& lattice);

// Those above min_post, by the state that they leave, states in topological order. Empty if there is no path.
std::vector<ArcPosterior> arc_posteriors(const Lattice& lattice, const Scales& scales, double min_post);

// Arcs (and final states' frames) over each frame, of states that can be reached. Throws LatticeError for a lattice of
// more than 2^28 frames.
std::vector<int32_t> depth_per_frame(const Lattice& lattice);

// The mean of the above: frames of all arcs by frames of the lattice; 1 where there is no frame, as in Kaldi.
double depth(const Lattice& lattice);

}  // namespace kaldi_punct

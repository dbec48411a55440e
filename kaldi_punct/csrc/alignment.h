// What aligners answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lattice.h"

namespace kaldi_punct {

struct Segment {
  int32_t word = 0;  // 0: silence, or a part of a word that has no label
  int32_t first_frame = 0;
  int32_t n_frames = 0;
};

// Of a path.
struct Alignment {
  std::vector<Segment> segments;  // end to end, over all frames
  int32_t n_unaligned = 0;        // words at the end that no frame is left for; they have no segment
  std::string problem;            // what Kaldi warns of, e.g. a partial word at the end; "" if nothing
};

// Of a lattice.
struct AlignedLattice {
  std::shared_ptr<const Lattice> lattice;  // each arc holds the frames of its word; no state if nothing came out
  std::string problem;                     // as above; the lattice is what Kaldi gives then, too
};

}  // namespace kaldi_punct

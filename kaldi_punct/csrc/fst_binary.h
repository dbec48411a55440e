// OpenFst's binary form of a lattice, as Kaldi writes it: fst type "vector", arc type compactlattice44 or lattice4
// (or 84 and 8, with double costs).
#pragma once

#include "byte_cursor.h"
#include "lattice.h"

namespace kaldi_punct {

constexpr unsigned char kFstMagicByte = 0xd6;  // the first of 0x7eb2fdd6, little-endian; no text value begins with it

// Reads one lattice and leaves the cursor behind it. Throws Truncated if there are too few bytes, LatticeError if they
// are no lattice; memory grows with the bytes present, never with a count that they state.
Lattice read_binary(ByteCursor& in);

}  // namespace kaldi_punct

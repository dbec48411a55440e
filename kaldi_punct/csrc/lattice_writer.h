// Writes a lattice as Kaldi does, so that Kaldi reads it again (the forms are those of fst_binary.h and fst_text.h).
#pragma once

#include <string>

#include "lattice.h"

namespace kaldi_punct {

struct WriteOptions {
  bool binary = true;
  bool compact =
      true;  // arc type compactlattice44, else lattice4; the lattice is converted where it is of the other form
};

// Appends the value that stands behind "<key> " in an archive. Costs are written as 32-bit floats, as Kaldi holds them;
// text has six digits. Throws LatticeError for a cost that no such float can hold.
void write_lattice(const Lattice& lattice, const WriteOptions& options, std::string* out);

}  // namespace kaldi_punct

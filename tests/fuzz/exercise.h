// Runs every algorithm of the core on one lattice and checks what must hold of any answer.
#pragma once

#include "lattice.h"

namespace kaldi_punct::fuzz {

// Throws std::logic_error where an answer cannot be right.
void exercise(const Lattice& lattice);

}  // namespace kaldi_punct::fuzz

// OpenFst's text form of a lattice, as Kaldi writes it: one arc or final state a line, an empty line at the end.
//
//   compact:      <state> <next> <word> <graph>,<acoustic>,<tid>_<tid>_...     <state> <graph>,<acoustic>,<tids>
//   state-level:  <state> <next> <tid> <word> <graph>,<acoustic>               <state> <graph>,<acoustic>
//
// A weight that is missing is 0,0.
#pragma once

#include "byte_cursor.h"
#include "lattice.h"

namespace kaldi_punct {

// Reads one lattice and leaves the cursor behind its empty line. Throws Truncated if there is no such line and
// `needs_empty_line`; a bad line is a recoverable LatticeError.
Lattice read_text(ByteCursor& in, bool needs_empty_line);

}  // namespace kaldi_punct

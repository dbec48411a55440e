// Collects a lattice while it is read, and says what is wrong with it once it is complete.
//
// A reader that knows where the value ends goes on after a bad cost or state number, so that the entries behind it can
// still be read; the first such problem is kept and thrown by finish().
#pragma once

#include <cstdint>
#include <string>

#include "lattice.h"

namespace kaldi_punct {

class LatticeBuilder {
 public:
  Lattice lattice;

  // Notes the first thing that is wrong.
  void note(const std::string& text, uint64_t offset);

  // True if this weight is a real one; false for Kaldi's zero (both costs infinite: no such arc, not final). Notes
  // costs that are neither.
  bool check_costs(double graph, double acoustic, uint64_t offset);

  // Notes a word or state number that cannot be.
  void check_arc(int64_t word, int64_t next, uint64_t offset);

  // The finished lattice; throws a recoverable LatticeError for the first problem noted, or for a cycle.
  Lattice finish(uint64_t offset);

 private:
  bool bad_ = false;
  std::string problem_;
  uint64_t problem_offset_ = 0;
};

}  // namespace kaldi_punct

#include "targets.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "archive.h"
#include "errors.h"
#include "exercise.h"
#include "lexicon.h"
#include "transition_model.h"
#include "word_boundary.h"

namespace kaldi_punct::fuzz {
namespace {

using HasRead = std::function<void()>;

// What one reading of an archive gave, so that two can be compared.
struct Reading {
  std::vector<ArchiveEntry> entries;
  std::string broken_by;
};

// Feeds pieces of these sizes, over and over.
Reading read_archive(const char* bytes, size_t n, const std::vector<size_t>& piece_sizes) {
  Reading reading;
  ArchiveReader reader("fuzz");
  size_t at = 0;
  try {
    for (size_t i = 0;; ++i) {
      const size_t piece = std::min(piece_sizes[i % piece_sizes.size()], n - at);
      if (piece > 0)
        reader.feed(bytes + at, piece);
      else
        reader.end();
      at += piece;
      while (std::optional<ArchiveEntry> entry = reader.next()) reading.entries.push_back(*entry);
      if (piece == 0) break;
    }
  } catch (const LatticeError& e) {
    reading.broken_by = e.what();
  }
  return reading;
}

void expect_same(const Reading& a, const Reading& b) {
  if (a.broken_by != b.broken_by) throw std::logic_error("pieces: '" + a.broken_by + "', then '" + b.broken_by + "'");
  if (a.entries.size() != b.entries.size()) throw std::logic_error("pieces: another number of entries");
  for (size_t i = 0; i < a.entries.size(); ++i) {
    const ArchiveEntry &x = a.entries[i], &y = b.entries[i];
    const bool same = x.key == y.key && x.error == y.error && !x.lattice == !y.lattice &&
                      (!x.lattice || x.lattice->arcs.size() == y.lattice->arcs.size());
    if (!same) throw std::logic_error("pieces: another entry " + x.key);
  }
}

void run_archive(const char* bytes, size_t n, const HasRead& has_read) {
  const Reading whole = read_archive(bytes, n, {n + 1});
  // Any sizes will do; these depend on the input so that many cuts are met, and leave few pieces of a long input.
  const size_t odd = n == 0 ? 1 : 1 + static_cast<unsigned char>(bytes[n / 2]) % 61;
  expect_same(whole, read_archive(bytes, n, {odd, 1, 1 + n / 8}));
  has_read();
  for (const ArchiveEntry& entry : whole.entries)
    if (entry.lattice) exercise(*entry.lattice);
}

void run_value(const char* bytes, size_t n, const HasRead& has_read) {
  const Lattice lattice = parse_value(bytes, n, "fuzz");
  has_read();
  exercise(lattice);
}

void run_transition_model(const char* bytes, size_t n, const HasRead& has_read) {
  const TransitionModel model(bytes, n, "fuzz");
  has_read();
  for (int32_t tid = 1; tid <= model.n_transition_ids(); ++tid)
    if (model.phone(tid) <= 0 || !model.has(tid)) throw std::logic_error("a transition-id without a phone");
}

void run_word_boundary(const char* bytes, size_t n, const HasRead& has_read) {
  const WordBoundary boundary(bytes, n, "fuzz");
  has_read();
  for (int32_t phone : {-1, 0, 1, 1000, INT32_MAX}) boundary.role(phone);
}

void run_align_lexicon(const char* bytes, size_t n, const HasRead& has_read) {
  const Lexicon lexicon(bytes, n, "fuzz");
  has_read();
  for (int32_t word : {-1, 0, 1, 1000, INT32_MAX}) {
    lexicon.lengths(word);
    lexicon.find(lexicon.next(Lexicon::kRoot, word) < 0 ? Lexicon::kRoot : lexicon.next(Lexicon::kRoot, word), word);
  }
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {
      {"archive", run_archive},
      {"value", run_value},
      {"transition_model", run_transition_model},
      {"word_boundary", run_word_boundary},
      {"align_lexicon", run_align_lexicon},
  };
  return all;
}

}  // namespace kaldi_punct::fuzz

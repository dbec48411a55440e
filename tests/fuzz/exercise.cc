#include "exercise.h"

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "archive.h"
#include "errors.h"
#include "lattice_aligner.h"
#include "lattice_costs.h"
#include "lattice_forms.h"
#include "lattice_shape.h"
#include "lattice_writer.h"
#include "lexicon_aligner.h"
#include "linear_lattice.h"
#include "mbr.h"
#include "oracle.h"
#include "paths.h"
#include "phone_aligner.h"
#include "posteriors.h"
#include "word_aligner.h"

namespace kaldi_punct::fuzz {
namespace {

// Five one-state phones: silence, then one for each place in a word. Phone p has the transition-ids 2p - 1 (self-loop)
// and 2p.
constexpr char kModel[] =
    "<TransitionModel> <Topology> <TopologyEntry> <ForPhones> 1 2 3 4 5 </ForPhones> "
    "<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State> <State> 1 </State> </TopologyEntry> "
    "</Topology> <Triples> 5 1 0 0 2 0 1 3 0 2 4 0 3 5 0 4 </Triples> ";
constexpr char kBoundary[] = "1 nonword\n2 begin\n3 end\n4 internal\n5 singleton\n";
constexpr char kLexicon[] = "0 0 1\n1 1 5\n1 1 2 3\n2 2 2 4 3\n3 3 2 3\n3 3 2 4 4 3\n";
constexpr int32_t kTids = 10;

const TransitionModel& toy_model() {
  static const TransitionModel model(kModel, sizeof(kModel) - 1, "toy model");
  return model;
}

const WordBoundary& toy_boundary() {
  static const WordBoundary boundary(kBoundary, sizeof(kBoundary) - 1, "toy boundary");
  return boundary;
}

void expect(bool holds, const char* what) {
  if (!holds) throw std::logic_error(std::string("it does not hold that ") + what);
}

// Alien transition-ids end an alignment at once; these are all the model's.
Lattice with_known_tids(Lattice lattice) {
  for (int32_t& tid : lattice.tids) tid = 1 + (tid - 1) % kTids;
  return lattice;
}

// What sums of costs may be off by: fuzzed ones reach 1e308, and nothing is left of what is added to such a number.
double noise_of(const Lattice& lattice) {
  double sum = 1;
  for (const State& state : lattice.states)
    sum += std::fabs(state.final_weight.graph) + std::fabs(state.final_weight.acoustic);
  for (const Arc& arc : lattice.arcs) sum += 1 + std::fabs(arc.weight.graph) + std::fabs(arc.weight.acoustic);
  return 1e-9 * sum;
}

void check_paths(const Lattice& lattice, const Scales& scales) {
  const double near = noise_of(lattice);
  const std::vector<Path> paths = best_paths(lattice, 20, scales);
  const double all = total_cost_of_all(lattice, scales);
  for (size_t i = 0; i < paths.size(); ++i) {
    const Path& path = paths[i];
    expect(static_cast<int64_t>(path.tids.size()) <= lattice.n_frames(), "no path has more frames than the longest");
    if (!std::isfinite(path.total_cost)) continue;  // costs so large that their sum overflows
    if (i > 0 && std::isfinite(paths[i - 1].total_cost))
      expect(path.total_cost >= paths[i - 1].total_cost - near, "paths come best first");
    expect(!(all > path.total_cost + near), "all paths together cost no more than one");
  }
}

// What was written is read, and comes out the same when it is written again.
void check_writing(const Lattice& lattice) {
  for (const WriteOptions& options :
       {WriteOptions{true, true}, WriteOptions{true, false}, WriteOptions{false, true}, WriteOptions{false, false}}) {
    std::string first, second;
    try {
      write_lattice(lattice, options, &first);
    } catch (const LatticeError&) {
      return;  // a cost beyond Kaldi's floats
    }
    const Lattice again = parse_value(first.data(), first.size(), "written");
    write_lattice(again, options, &second);
    expect(first == second, "a lattice that is read and written stays the same");
    expect(again.n_frames() == lattice.n_frames(), "writing keeps the frames");
  }
}

bool has_path(const Lattice& lattice) { return !best_paths(lattice, 1, Scales()).empty(); }

void check_shapes(const Lattice& lattice) {
  const bool any = has_path(lattice);
  for (const Lattice& same : {spelled_out(lattice), compacted(lattice), connected(lattice), top_sorted(lattice),
                              rescaled(lattice, Scales{0.5, 0.1, 1})}) {
    expect(same.n_frames() == lattice.n_frames(), "another form has as many frames");
    expect(has_path(same) == any, "another form has a path where the lattice has");
  }
  for (const Lattice& one : best_lattices(lattice, 3, Scales())) expect(is_linear(one), "a best path is linear");
}

void check_pruning(const Lattice& lattice) {
  for (double beam : {1e-3, 4.0, 1e9}) {
    const Lattice less = pruned(lattice, Scales{1, 0.1, 0}, beam);
    expect(less.arcs.size() <= lattice.arcs.size(), "pruning adds nothing");
    if (noise_of(lattice) < 1e-3) expect(has_path(less) == has_path(lattice), "pruning keeps the best path");
  }
}

void check_measures(const Lattice& lattice) {
  for (const ArcPosterior& arc : arc_posteriors(lattice, Scales{1, 0.1, 0}, 0))
    if (noise_of(lattice) < 1e-3) expect(arc.posterior < 1 + 1e-3, "no posterior is above 1");
  expect(depth(lattice) >= 0, "no depth is below 0");
  depth_per_frame(lattice);
  const auto nearest = oracle_path(lattice, {1, 2, 3}, {4}, Scales());
  if (nearest) {
    expect(nearest->n_correct + nearest->n_substitutions + nearest->n_deletions == 3, "each word is right or wrong");
    expect(nearest->n_correct + nearest->n_substitutions + nearest->n_insertions ==
               static_cast<int32_t>(nearest->words.size()),
           "each word of the path is right or wrong");
  }
}

void check_segments(const Alignment& alignment, const Path& path) {
  int32_t end = 0;
  for (const Segment& segment : alignment.segments) {
    expect(segment.first_frame == end && segment.n_frames > 0, "segments lie end to end");
    end += segment.n_frames;
  }
  expect(end == static_cast<int32_t>(path.tids.size()), "segments cover all frames");
}

void check_path_alignment(const Lattice& lattice) {
  for (bool reorder : {true, false}) {
    const WordAligner words(toy_model(), toy_boundary(), reorder);
    const PhoneAligner phones(toy_model(), reorder);
    for (const Path& path : best_paths(lattice, 3, Scales())) {
      check_segments(words.align(path.words, path.tids), path);
      check_segments(phones.align(path.tids), path);
    }
  }
}

void check_lattice_alignment(const Lattice& lattice) {
  constexpr double kMaxExpand = 10;
  for (bool reorder : {true, false}) {
    const WordAligner words(toy_model(), toy_boundary(), reorder);
    align_words(lattice, words, WordLabels(), kMaxExpand);
    for (bool replace : {true, false}) align_phones(lattice, words.table(), PhoneOptions{reorder, true, replace});
  }
}

void check_lexicon_alignment(const Lattice& lattice) {
  static const auto lexicon = std::make_shared<const Lexicon>(kLexicon, sizeof(kLexicon) - 1, "toy lexicon");
  Lattice known = lattice;
  for (Arc& arc : known.arcs) arc.word = arc.word % 4;
  const LexiconAligner aligner(toy_model(), lexicon);
  LexiconOptions options;
  options.max_expand = 10;
  aligner.align(known, options);
  for (const Path& path : best_paths(known, 2, Scales())) aligner.align(path.words, path.tids);
}

void check_sausages(const Lattice& lattice) {
  for (bool decode : {true, false}) {
    const auto sausage = decode_mbr(lattice, Scales{1, 0.1, 0}, MbrOptions{decode, true});
    if (!sausage || noise_of(lattice) >= 1e-3) continue;
    expect(sausage->one_best.size() == sausage->bins.size(), "with silences each bin has its word");
    for (const Bin& bin : sausage->bins) {
      double sum = 0;
      for (const BinWord& word : bin.words) sum += word.posterior;
      expect(std::fabs(sum - 1) < 1e-3, "the posteriors of a bin sum to 1");
    }
  }
}

}  // namespace

void exercise(const Lattice& lattice) {
  for (const Scales& scales : {Scales{1, 1, 0}, Scales{0.5, 0.1, -1}, Scales{0, -1, 0.5}}) check_paths(lattice, scales);
  check_writing(lattice);
  const Lattice known = with_known_tids(lattice);
  for (const auto& check : {check_shapes, check_pruning, check_measures, check_path_alignment, check_lattice_alignment,
                            check_lexicon_alignment, check_sausages}) {
    try {
      check(known);
    } catch (const LatticeError&) {  // refused, as costs beyond Kaldi's floats are
    }
  }
}

}  // namespace kaldi_punct::fuzz

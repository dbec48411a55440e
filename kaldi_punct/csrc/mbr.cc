#include "mbr.h"

#include <algorithm>
#include <memory>
#include <string>

#include "errors.h"
#include "word_graph.h"

namespace kaldi_punct {
namespace {

constexpr double kMismatch = 1;
// A word of the lattice that stands against none of the hypothesis costs a little more than one that stands against
// another word, so that it shows up in a bin.
constexpr double kInsertion = 1 + static_cast<double>(1.0e-05f);
constexpr int kMaxRounds = 101;
constexpr uint64_t kMaxCells = uint64_t{1} << 31;  // bytes of memory: one for each arc and bin

// How an arc and a bin stand to each other in the best alignment of the paths to the arc's end and the bins up to this.
enum Step : uint8_t { kTogether = 1, kArcAlone = 2, kBinAlone = 3 };

// Rows of numbers, one for each bin and one before them; used again once given back.
class RowPool {
 public:
  explicit RowPool(size_t width) : width_(width) {}

  double* take() {  // all zeros
    if (free_.empty()) {
      rows_.push_back(std::make_unique<double[]>(width_));
      return rows_.back().get();
    }
    double* const row = free_.back();
    free_.pop_back();
    std::fill(row, row + width_, 0.0);
    return row;
  }
  void give_back(double* row) { free_.push_back(row); }

 private:
  size_t width_;
  std::vector<std::unique_ptr<double[]>> rows_;
  std::vector<double*> free_;
};

// Mass of one word in one bin, or of a part of it. Times are weighted by the mass.
struct Mass {
  int32_t word = 0;
  uint32_t serial = 0;  // keeps the order of sums
  double mass = 0;
  double begin = 0;
  double end = 0;

  void add(double more, double begin_frame, double end_frame) {
    mass += more;
    begin += more * begin_frame;
    end += more * end_frame;
  }
};

// Aligns all paths with one hypothesis (word and no-word bins in turn): the expected edit distance, and what stands in
// each bin.
class Aligner {
 public:
  Aligner(const WordGraph& graph, const std::vector<int32_t>& bins)
      : graph_(graph), n_bins_(bins.size()), words_(bins.size() + 1), ways_(bins.size() + 1), pool_(bins.size() + 1) {
    std::copy(bins.begin(), bins.end(), words_.begin() + 1);
    steps_.reset(new uint8_t[graph.arcs.size() * (n_bins_ + 1)]);
  }

  // The expected edit distance; notes the steps of each arc.
  double forward() {
    const uint32_t n_nodes = graph_.n_nodes();
    std::vector<double*> rows(n_nodes);
    std::vector<uint32_t> n_left = graph_.n_out;
    rows[0] = pool_.take();
    for (size_t q = 1; q <= n_bins_; ++q) rows[0][q] = rows[0][q - 1] + (words_[q] != 0 ? kMismatch : 0);
    for (uint32_t n = 1; n < n_nodes; ++n) {
      rows[n] = pool_.take();
      for (uint64_t i = graph_.first_arc[n]; i < graph_.first_arc[n + 1]; ++i) {
        const GraphArc& arc = graph_.arcs[i];
        align(arc, rows[arc.from], rows[n], steps_of(i));
        if (--n_left[arc.from] == 0) pool_.give_back(rows[arc.from]);
      }
    }
    const double distance = rows[n_nodes - 1][n_bins_];
    pool_.give_back(rows[n_nodes - 1]);
    return distance;
  }

  // What stands in each bin; after forward().
  std::vector<Bin> backward() {
    nothing_.assign(n_bins_ + 1, Mass());
    some_.assign(n_bins_ + 1, {});
    const uint32_t n_nodes = graph_.n_nodes();
    std::vector<Row> rows(n_nodes);
    add(&rows[n_nodes - 1], n_bins_, 1.0);
    for (uint32_t n = n_nodes - 1; n > 0; --n) {
      if (rows[n].cells == nullptr) continue;
      for (uint64_t i = graph_.first_arc[n]; i < graph_.first_arc[n + 1]; ++i) share_out(i, n, rows[n], &rows);
      pool_.give_back(rows[n].cells);
    }
    double rest = 0;  // bins before the first arc
    for (size_t q = n_bins_; q > 0; --q) {
      rest += rows[0].cells[q];
      nothing_[q].add(rest, 0, 0);
    }
    std::vector<Bin> bins(n_bins_);
    for (size_t q = 1; q <= n_bins_; ++q) bins[q - 1] = make_bin(q);
    return bins;
  }

 private:
  // Mass that reaches a node, by the bin that its paths have come to.
  struct Row {
    double* cells = nullptr;
    size_t low = 0;  // the first and last that hold any
    size_t high = 0;
  };

  uint8_t* steps_of(uint64_t arc) { return steps_.get() + arc * (n_bins_ + 1); }

  // before: expected distance at the arc's beginning, by bin; adds the arc's part to that at its end.
  void align(const GraphArc& arc, const double* before, double* after, uint8_t* steps) {
    const double insertion = arc.word == 0 ? 0 : kInsertion;
    const double word = arc.word;
    double* const ways = ways_.data();
    for (size_t q = 1; q <= n_bins_; ++q) {
      const double together = before[q - 1] + (words_[q] != word ? kMismatch : 0.0);
      const double alone = before[q] + insertion;
      ways[q] = together <= alone ? together : alone;
      steps[q] = together <= alone ? kTogether : kArcAlone;
    }
    double way = before[0] + insertion;
    after[0] += arc.share * way;
    size_t q = 1;
    for (; q < n_bins_; q += 2) {  // a bin without a word, then one with a word
      const double left = std::min(ways[q], way);
      if (way < ways[q]) steps[q] = kBinAlone;
      const double deletion = left + kMismatch;
      way = std::min(ways[q + 1], deletion);
      if (deletion < ways[q + 1]) steps[q + 1] = kBinAlone;
      after[q] += arc.share * left;
      after[q + 1] += arc.share * way;
    }
    if (way < ways[q]) steps[q] = kBinAlone;
    after[q] += arc.share * std::min(ways[q], way);
  }

  // Takes the mass at the end of an arc back to its beginning, and to the bins that it stands in.
  void share_out(uint64_t i, uint32_t n, const Row& row, std::vector<Row>* rows) {
    const GraphArc& arc = graph_.arcs[i];
    const uint8_t* const steps = steps_of(i);
    Row* const from = &(*rows)[arc.from];
    const double begin = graph_.times[arc.from], end = graph_.times[n];
    double carried = 0;
    size_t q = row.high;
    for (; q > 0 && (q >= row.low || carried != 0); --q) {
      const double mass = carried + (q >= row.low ? arc.share * row.cells[q] : 0.0);
      carried = 0;
      if (mass == 0) continue;
      switch (steps[q]) {
        case kTogether:
          add(from, q - 1, mass);
          add_word(q, arc.word, mass, begin, end);
          break;
        case kArcAlone:
          add(from, q, mass);
          break;
        default:
          carried = mass;
          nothing_[q].add(mass, end, end);
      }
    }
    if (q == 0) add(from, 0, carried + (row.low == 0 ? arc.share * row.cells[0] : 0.0));
  }

  void add(Row* row, size_t q, double mass) {
    if (row->cells == nullptr) *row = {pool_.take(), q, q};
    row->cells[q] += mass;
    row->low = std::min(row->low, q);
    row->high = std::max(row->high, q);
  }

  void add_word(size_t q, int32_t word, double mass, double begin, double end) {
    if (word == 0) return nothing_[q].add(mass, begin, end);
    some_[q].push_back({word, static_cast<uint32_t>(some_[q].size()), mass, mass * begin, mass * end});
  }

  Bin make_bin(size_t q) {
    std::vector<Mass>& masses = some_[q];
    std::sort(masses.begin(), masses.end(),
              [](const Mass& a, const Mass& b) { return a.word != b.word ? a.word < b.word : a.serial < b.serial; });
    Bin bin;
    if (nothing_[q].mass != 0) take_word(nothing_[q], &bin);
    for (size_t i = 0; i < masses.size();) {
      Mass sum{masses[i].word, 0, 0, 0, 0};
      for (; i < masses.size() && masses[i].word == sum.word; ++i) {
        sum.mass += masses[i].mass;
        sum.begin += masses[i].begin;
        sum.end += masses[i].end;
      }
      take_word(sum, &bin);
    }
    std::sort(bin.words.begin(), bin.words.end(), [](const BinWord& a, const BinWord& b) {
      return a.posterior != b.posterior ? a.posterior > b.posterior : a.word > b.word;
    });
    return bin;
  }

  static void take_word(const Mass& sum, Bin* bin) {
    bin->words.push_back({sum.word, static_cast<float>(sum.mass), sum.begin / sum.mass, sum.end / sum.mass});
    bin->begin += sum.begin;
    bin->end += sum.end;
  }

  const WordGraph& graph_;
  size_t n_bins_;
  std::vector<double> words_;  // of bin q, from 1; whole numbers that compare fast with each other
  std::vector<double> ways_;
  RowPool pool_;
  std::unique_ptr<uint8_t[]> steps_;  // of arc and bin
  std::vector<Mass> nothing_;         // by bin, from 1
  std::vector<std::vector<Mass>> some_;
};

// The words with a bin for none before, between and after them.
std::vector<int32_t> with_gaps(const std::vector<int32_t>& words) {
  std::vector<int32_t> bins{0};
  for (const int32_t word : words) {
    if (word == 0) continue;
    bins.push_back(word);
    bins.push_back(0);
  }
  return bins;
}

float posterior_in(const Bin& bin, int32_t word) {
  for (const BinWord& w : bin.words)
    if (w.word == word) return w.posterior;
  return 0;
}

void part_bins(std::vector<Bin>* bins) {
  for (size_t q = 1; q < bins->size(); ++q) {
    double& end = (*bins)[q - 1].end;
    double& begin = (*bins)[q].begin;
    if (end > begin) end = begin = 0.5 * (end + begin);
  }
}

// Deals the time of two overlapping words out between them, by their lengths.
void part_words(double earliest, BinWord* first, BinWord* second) {
  const double left = std::max(earliest, std::min(first->begin, second->begin));
  const double right = std::max(first->end, second->end);
  const double length = first->end - first->begin, other = second->end - second->begin;
  first->begin = left;
  first->end = second->begin = length > 0 ? left + (right - left) * length / (length + other) : left;
  second->end = right;
}

std::vector<BinWord> one_best_of(const std::vector<Bin>& bins, const std::vector<int32_t>& words, bool keep_gaps) {
  std::vector<BinWord> out;
  for (size_t q = 0; q < bins.size(); ++q) {
    if (words[q] == 0 && !keep_gaps) continue;
    // A word that no path has here takes the times of the likeliest.
    BinWord best{words[q], 0, bins[q].words[0].begin, bins[q].words[0].end};
    for (const BinWord& w : bins[q].words)
      if (w.word == words[q]) best = w;
    out.push_back(best);
    const size_t n = out.size();
    if (n > 1 && out[n - 2].end > best.begin) part_words(n > 2 ? out[n - 3].end : 0, &out[n - 2], &out[n - 1]);
  }
  return out;
}

void check_size(const WordGraph& graph, const std::vector<int32_t>& bins) {
  if (graph.arcs.size() <= kMaxCells / (bins.size() + 1)) return;
  throw LatticeError("expected a lattice and words that can be aligned in " + std::to_string(kMaxCells >> 20) +
                         " MiB, got " + std::to_string(graph.arcs.size()) + " arcs and " +
                         std::to_string(bins.size() / 2) + " words; prune the lattice, or decode shorter pieces",
                     0);
}

}  // namespace

std::optional<Sausage> decode_mbr(const Lattice& lattice, const Scales& scales, const MbrOptions& options,
                                  const std::optional<std::vector<int32_t>>& words) {
  const WordGraph graph = make_word_graph(lattice, scales);
  if (graph.n_nodes() == 0) return std::nullopt;
  std::vector<int32_t> bins = with_gaps(words ? *words : best_paths(lattice, 1, scales)[0].words);
  Sausage sausage;
  for (int round = 1;; ++round) {
    check_size(graph, bins);
    Aligner aligner(graph, bins);
    sausage.bayes_risk = aligner.forward();
    sausage.bins = aligner.backward();
    double change = 0;  // of the expected edit distance, at most
    for (size_t q = 0; options.decode_mbr && q < bins.size(); ++q) {
      const BinWord& best = sausage.bins[q].words[0];
      change += posterior_in(sausage.bins[q], bins[q]) - best.posterior;
      bins[q] = best.word;
    }
    sausage.is_settled = change == 0;
    if (sausage.is_settled || round == kMaxRounds) break;
    bins = with_gaps(bins);
  }
  part_bins(&sausage.bins);
  sausage.one_best = one_best_of(sausage.bins, bins, options.print_silence);
  return sausage;
}

}  // namespace kaldi_punct

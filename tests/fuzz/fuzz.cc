// Feeds the core's readers with real inputs and with spoilt ones. See README.md in this folder.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "errors.h"
#include "mutator.h"
#include "targets.h"
#include "watch.h"

namespace {

using namespace kaldi_punct;        // NOLINT: a program's main file
using namespace kaldi_punct::fuzz;  // NOLINT
using Clock = std::chrono::steady_clock;

constexpr size_t kMostInputBytes = 8192;
// A reader may hold a few structures for each byte (the shortest line of a text lattice has two), and a little beside.
constexpr size_t kAllocatedPerByte = 512;
constexpr size_t kAllocatedAnyway = 16 << 20;
constexpr char kUsage[] =
    "Usage: core_fuzz [--seconds S] [--runs N] [--seed N] [--target NAME] [--findings DIR] <corpus-dir>\n"
    " e.g.: core_fuzz --seconds 60 corpus   # corpus/archive/*, corpus/value/*, corpus/transition_model/*, ...\n";

struct Options {
  double seconds = 0;
  size_t n_runs = 0;  // of each target
  uint64_t seed = 1;
  std::string target;
  std::string findings = ".";
  std::string corpus;
};

struct Campaign {
  const Target* target = nullptr;
  std::vector<std::string> corpus;
  size_t n_seeds = 0;
  size_t n_runs = 0;
};

// Runs one input; false, with the input kept, if what comes out is no error that the core means to give.
bool run_one(Campaign* campaign, const std::string& input, bool keep) {
  const Target& target = *campaign->target;
  ++campaign->n_runs;
  begin_run(target.name, input, kAllocatedAnyway + kAllocatedPerByte * input.size());
  try {
    target.run(input.data(), input.size(), allow_allocations);
  } catch (const FormatError&) {
  } catch (const std::exception& e) {
    end_run();
    std::fprintf(stderr, "fuzz: %s: %s: input kept as %s\n", target.name.c_str(), e.what(),
                 save_input("exception").c_str());
    return false;
  }
  if (end_run() && keep) campaign->corpus.push_back(input);
  return true;
}

bool load(const Options& options, Campaign* campaign) {
  const std::filesystem::path folder = std::filesystem::path(options.corpus) / campaign->target->name;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream in(entry.path(), std::ios::binary);
      campaign->corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  campaign->n_seeds = campaign->corpus.size();
  if (campaign->n_seeds == 0) std::fprintf(stderr, "fuzz: %s: expected seeds, got none\n", folder.c_str());
  for (size_t i = 0; i < campaign->n_seeds; ++i) {
    const std::string seed = campaign->corpus[i];
    if (!run_one(campaign, seed, false)) return false;
  }
  return campaign->n_seeds > 0;
}

void report(const std::vector<Campaign>& campaigns, double seconds) {
  size_t n_runs = 0;
  for (const Campaign& c : campaigns) {
    n_runs += c.n_runs;
    std::fprintf(stderr, "fuzz: %-18s %9zu executions, %4zu seeds, %5zu inputs that reach something new\n",
                 c.target->name.c_str(), c.n_runs, c.n_seeds, c.corpus.size() - c.n_seeds);
  }
  std::fprintf(stderr, "fuzz: %.0f s, %zu executions, %zu edges reached\n", seconds, n_runs, n_edges_reached());
}

bool mutate(const Options& options, std::vector<Campaign>* campaigns) {
  constexpr size_t kTurn = 64;
  Mutator mutator(options.seed, kMostInputBytes);
  const Clock::time_point begin = Clock::now();
  double next_report_s = 60;
  for (size_t n = 0;; n += kTurn) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const bool at_end = options.seconds > 0 ? seconds >= options.seconds : n >= options.n_runs;
    if (at_end || seconds >= next_report_s) report(*campaigns, seconds);
    if (at_end) return true;
    if (seconds >= next_report_s) next_report_s += 60;
    for (Campaign& campaign : *campaigns)
      for (size_t i = 0; i < kTurn; ++i)
        if (!run_one(&campaign, mutator.next(campaign.corpus), true)) return false;
  }
}

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name.substr(0, 2) != "--") {
      options->corpus = name;
      continue;
    }
    if (++i == argc) return false;
    if (name == "--seconds")
      options->seconds = std::atof(argv[i]);
    else if (name == "--runs")
      options->n_runs = static_cast<size_t>(std::atoll(argv[i]));
    else if (name == "--seed")
      options->seed = static_cast<uint64_t>(std::atoll(argv[i]));
    else if (name == "--target")
      options->target = argv[i];
    else if (name == "--findings")
      options->findings = argv[i];
    else
      return false;
  }
  return !options->corpus.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  watch_findings(options.findings);
  std::vector<Campaign> campaigns;
  for (const Target& target : targets())
    if (options.target.empty() || options.target == target.name) campaigns.push_back({&target, {}, 0, 0});
  for (Campaign& campaign : campaigns)
    if (!load(options, &campaign)) return 1;
  return mutate(options, &campaigns) ? 0 : 1;
}

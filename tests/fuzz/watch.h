// Watches one run of a target: which code it reaches, what it allocates, how long it takes.
//
// A run that allocates or takes too much, and one that a sanitizer ends, leaves its input as a file and ends the
// program.
#pragma once

#include <cstddef>
#include <string>

namespace kaldi_punct::fuzz {

// Where inputs of bad runs go: "<directory>/<target>-<reason>".
void watch_findings(const std::string& directory);

// The input must live until end_run.
void begin_run(const std::string& target, const std::string& input, size_t most_allocated_bytes);
void allow_allocations();  // from here on to the end of the run
// True if the run reached what no run before it did.
bool end_run();

// Leaves the input of the current run under the findings; returns the path.
std::string save_input(const char* reason);

size_t n_edges_reached();

}  // namespace kaldi_punct::fuzz

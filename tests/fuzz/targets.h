// What the fuzzer feeds: each reader of the core, and behind the readers of lattices every algorithm.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace kaldi_punct::fuzz {

struct Target {
  std::string name;
  // Reads the bytes. Errors that the core means to give are taken; anything else leaves as an exception. Calls
  // `has_read` where reading is over and computing begins.
  std::function<void(const char* bytes, size_t n, const std::function<void()>& has_read)> run;
};

const std::vector<Target>& targets();

}  // namespace kaldi_punct::fuzz

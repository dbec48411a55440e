// Makes new inputs out of known ones.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace kaldi_punct::fuzz {

class Mutator {
 public:
  Mutator(uint64_t seed, size_t most_bytes) : random_(seed), most_bytes_(most_bytes) {}

  // One of the corpus, changed in a few places.
  std::string next(const std::vector<std::string>& corpus);

  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }

 private:
  void change(std::string* s, const std::vector<std::string>& corpus);
  void change_bytes(std::string* s);
  void change_number(std::string* s);
  void change_digits(std::string* s);
  void change_block(std::string* s, const std::vector<std::string>& corpus);
  void insert_token(std::string* s);

  std::mt19937_64 random_;
  size_t most_bytes_;
};

}  // namespace kaldi_punct::fuzz

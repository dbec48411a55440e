// Where in a word each phone stands: Kaldi's phones/word_boundary.int.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kaldi_punct {

enum class PhoneRole : uint8_t { kUnknown, kNonword, kBegin, kEnd, kInternal, kSingleton };

class WordBoundary {
 public:
  // Reads lines "<phone> nonword|begin|end|internal|singleton". Throws FormatError "<name>:<line>: ...".
  WordBoundary(const char* bytes, size_t n, const std::string& name);

  PhoneRole role(int32_t phone) const {
    return phone < 0 || phone >= static_cast<int32_t>(roles_.size()) ? PhoneRole::kUnknown : roles_[phone];
  }

 private:
  std::vector<PhoneRole> roles_;
};

}  // namespace kaldi_punct

#include "word_boundary.h"

#include <string_view>

#include "errors.h"
#include "numbers.h"
#include "text.h"

namespace kaldi_punct {
namespace {

PhoneRole role_named(std::string_view s) {
  if (s == "nonword") return PhoneRole::kNonword;
  if (s == "begin") return PhoneRole::kBegin;
  if (s == "end") return PhoneRole::kEnd;
  if (s == "internal") return PhoneRole::kInternal;
  if (s == "singleton") return PhoneRole::kSingleton;
  return PhoneRole::kUnknown;
}

}  // namespace

WordBoundary::WordBoundary(const char* bytes, size_t n, const std::string& name) {
  constexpr int64_t kMostPhones = 1'000'000;  // a phone number is an array index
  std::string_view left(bytes, n);
  std::vector<std::string_view> fields;
  for (size_t line_number = 1; !left.empty(); ++line_number) {
    const size_t end = left.find('\n');
    const std::string_view line = left.substr(0, end);
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
    split_fields(line, &fields);
    int64_t phone = 0;
    PhoneRole role = PhoneRole::kUnknown;
    if (fields.size() == 2 && parse_int(fields[0], &phone) && phone > 0 && phone <= kMostPhones)
      role = role_named(fields[1]);
    if (role == PhoneRole::kUnknown)
      throw FormatError(name + ":" + std::to_string(line_number) +
                        ": expected '<phone-id> nonword|begin|end|internal|singleton', got '" + printable(line, 60) +
                        "'; give phones/word_boundary.int of the lang directory");
    if (phone >= static_cast<int64_t>(roles_.size())) roles_.resize(static_cast<size_t>(phone) + 1);
    roles_[static_cast<size_t>(phone)] = role;
  }
  if (roles_.empty()) throw FormatError(name + ":1: expected phones and their place in a word, got an empty file");
}

}  // namespace kaldi_punct

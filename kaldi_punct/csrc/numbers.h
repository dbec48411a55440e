// Numbers from text, whole or not at all, whatever the locale.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace kaldi_punct {

inline bool parse_int(std::string_view s, int64_t* value) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *value);
  return error == std::errc() && end == s.data() + s.size();
}

// Takes also what OpenFst writes for special values: Infinity, -Infinity, BadNumber.
bool parse_double(std::string_view s, double* value);

// Splits at ASCII blanks.
template <class Container>
void split_fields(std::string_view line, Container* fields) {
  fields->clear();
  size_t i = 0;
  while (i < line.size()) {
    const size_t begin = line.find_first_not_of(" \t\r", i);
    if (begin == std::string_view::npos) return;
    size_t end = line.find_first_of(" \t\r", begin);
    if (end == std::string_view::npos) end = line.size();
    fields->push_back(line.substr(begin, end - begin));
    i = end;
  }
}

}  // namespace kaldi_punct

#include "numbers.h"

#include <cmath>
#include <limits>
#include <locale>
#include <sstream>

namespace kaldi_punct {

bool parse_double(std::string_view s, double* value) {
  if (s == "Infinity" || s == "inf") {
    *value = HUGE_VAL;
    return true;
  }
  if (s == "-Infinity" || s == "-inf") {
    *value = -HUGE_VAL;
    return true;
  }
  if (s == "BadNumber" || s == "nan" || s == "-nan" || s == "NaN") {
    *value = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
#if defined(__cpp_lib_to_chars)
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *value);
  return error == std::errc() && end == s.data() + s.size();
#else  // libstdc++ before 11
  std::istringstream in{std::string(s)};
  in.imbue(std::locale::classic());
  in >> std::noskipws >> *value;
  return !in.fail() && in.peek() == std::istringstream::traits_type::eof();
#endif
}

}  // namespace kaldi_punct

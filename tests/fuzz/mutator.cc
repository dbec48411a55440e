#include "mutator.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace kaldi_punct::fuzz {
namespace {

constexpr int64_t kNumbers[] = {0,          1,
                                -1,         2,
                                3,          4,
                                8,          16,
                                127,        128,
                                255,        256,
                                -128,       1000,
                                32767,      65535,
                                65536,      1 << 24,
                                1 << 30,    INT32_MAX,
                                INT32_MIN,  INT32_MAX - 1,
                                0x7eb2fdd6, 0x7fc00000,
                                0x7f800000, 0xff800000,
                                UINT32_MAX, INT64_MAX,
                                INT64_MIN};

// Bytes that the readers look for.
constexpr std::string_view kTokens[] = {"\n\n",
                                        "\n",
                                        " ",
                                        "\t",
                                        "\r\n",
                                        ",",
                                        "_",
                                        "-",
                                        "0",
                                        "1",
                                        "Infinity",
                                        "-Infinity",
                                        "BadNumber",
                                        "nan",
                                        "1e308",
                                        "-1e308",
                                        "1e-320",
                                        "2147483647",
                                        "2147483648",
                                        "-1",
                                        "99999999999999999999",
                                        "compactlattice44",
                                        "compactlattice84",
                                        "lattice4",
                                        "lattice8",
                                        "vector",
                                        "\xd6\xfd\xb2\x7e",
                                        "<TransitionModel> ",
                                        "<Topology> ",
                                        "</Topology> ",
                                        "<TopologyEntry> ",
                                        "</TopologyEntry> ",
                                        "<ForPhones> ",
                                        "</ForPhones> ",
                                        "<State> ",
                                        "</State> ",
                                        "<Transition> ",
                                        "<PdfClass> ",
                                        "<Tuples> ",
                                        "</Tuples> ",
                                        "<Triples> ",
                                        "nonword",
                                        "begin",
                                        "end",
                                        "internal",
                                        "singleton",
                                        "\xc3\xa9",
                                        "\xff"};

}  // namespace

std::string Mutator::next(const std::vector<std::string>& corpus) {
  std::string s = corpus[below(corpus.size())];
  for (size_t n = size_t{1} << below(5); n > 0; --n) change(&s, corpus);
  if (s.size() > most_bytes_) s.resize(most_bytes_);
  return s;
}

void Mutator::change(std::string* s, const std::vector<std::string>& corpus) {
  switch (below(6)) {
    case 0:
      return change_bytes(s);
    case 1:
      return change_number(s);
    case 2:
      return change_digits(s);
    case 3:
    case 4:
      return change_block(s, corpus);
    default:
      return insert_token(s);
  }
}

void Mutator::change_bytes(std::string* s) {
  if (s->empty()) return;
  char& c = (*s)[below(s->size())];
  if (below(2) == 0)
    c = static_cast<char>(c ^ (1 << below(8)));
  else
    c = static_cast<char>(random_());
}

// A binary number of 4 or 8 bytes: to a special one, or by a little. Lengths and counts are such numbers.
void Mutator::change_number(std::string* s) {
  const size_t width = below(2) == 0 ? 4 : 8;
  if (s->size() < width) return;
  char* at = s->data() + below(s->size() - width + 1);
  int64_t value = 0;
  std::memcpy(&value, at, width);
  if (below(2) == 0)
    value = kNumbers[below(std::size(kNumbers))];
  else
    value = static_cast<int64_t>(static_cast<uint64_t>(value) + below(33) - 16);
  std::memcpy(at, &value, width);
}

// A number in text.
void Mutator::change_digits(std::string* s) {
  const size_t begin = s->find_first_of("0123456789", below(s->size()));
  if (begin == std::string::npos) return;
  size_t end = s->find_first_not_of("0123456789", begin);
  if (end == std::string::npos) end = s->size();
  const int64_t value = below(2) == 0 ? kNumbers[below(std::size(kNumbers))] : static_cast<int64_t>(below(12));
  s->replace(begin, end - begin, std::to_string(value));
}

// Cut off, cut out, doubled, moved, or taken from another input.
void Mutator::change_block(std::string* s, const std::vector<std::string>& corpus) {
  const size_t at = below(s->size() + 1);
  const size_t length = below(std::min<size_t>(s->size() - at, size_t{1} << below(11)) + 1);
  switch (below(6)) {
    case 0:
      s->resize(at);
      return;
    case 1:
      s->erase(at, length);
      return;
    case 2:
      s->insert(at, s->substr(at, length));
      return;
    case 3: {
      const std::string block = s->substr(at, length);
      s->insert(below(s->size() + 1), block);
      return;
    }
    case 4: {
      const std::string& other = corpus[below(corpus.size())];
      s->replace(at, std::string::npos, other.substr(below(other.size() + 1)));
      return;
    }
    default: {
      const std::string& other = corpus[below(corpus.size())];
      s->insert(at, other.substr(below(other.size() + 1), below(256)));
      return;
    }
  }
}

void Mutator::insert_token(std::string* s) {
  const std::string_view token = kTokens[below(std::size(kTokens))];
  const size_t at = below(s->size() + 1);
  if (below(2) == 0)
    s->insert(at, token);
  else
    s->replace(at, token.size(), token);
}

}  // namespace kaldi_punct::fuzz

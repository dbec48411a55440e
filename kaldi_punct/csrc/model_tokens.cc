#include "model_tokens.h"

#include "numbers.h"
#include "text.h"

namespace kaldi_punct {
namespace {

constexpr size_t kMaxTokenBytes = 256;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

ModelTokens::ModelTokens(const char* bytes, size_t n, std::string name)
    : in_(bytes, bytes + n, 0), name_(std::move(name)) {
  is_binary_ = n >= 2 && bytes[0] == '\0' && bytes[1] == 'B';
  if (is_binary_) in_.skip(2);
}

std::string ModelTokens::take_token() {
  if (!is_binary_)
    while (in_.left() > 0 && is_blank(*in_.at())) in_.skip(1);
  std::string token;
  while (in_.left() > 0 && !is_blank(*in_.at()) && token.size() < kMaxTokenBytes) {
    token.push_back(*in_.at());
    in_.skip(1);
  }
  if (token.empty() && in_.left() == 0) throw Truncated();
  if (in_.left() > 0 && is_blank(*in_.at())) in_.skip(1);
  return token;
}

void ModelTokens::expect(const std::string& token) {
  const std::string got = take_token();
  if (got != token) fail(token, got);
}

int32_t ModelTokens::take_int() {
  if (is_binary_) {
    check_width(sizeof(int32_t), "a 4-byte integer");
    return in_.take<int32_t>();
  }
  const std::string token = take_token();
  int64_t value = 0;
  if (!parse_int(token, &value) || value < INT32_MIN || value > INT32_MAX) fail("an integer", token);
  return static_cast<int32_t>(value);
}

void ModelTokens::skip_float() {
  if (is_binary_) {
    check_width(sizeof(float), "a 4-byte number");
    in_.skip(sizeof(float));
    return;
  }
  double value = 0;
  const std::string token = take_token();
  if (!parse_double(token, &value)) fail("a number", token);
}

std::vector<int32_t> ModelTokens::take_ints() {
  check_width(sizeof(int32_t), "a vector of 4-byte integers");
  const int32_t n = in_.take<int32_t>();
  if (n < 0) fail("the length of a vector", std::to_string(n));
  in_.need(static_cast<size_t>(n) * sizeof(int32_t));
  std::vector<int32_t> values(static_cast<size_t>(n));
  for (int32_t& value : values) value = in_.take<int32_t>();
  return values;
}

void ModelTokens::check_width(char width, const char* what) {
  const char got = in_.take<char>();
  if (got != width) fail(what, "byte " + std::to_string(static_cast<int>(static_cast<unsigned char>(got))));
}

void ModelTokens::fail(const std::string& expected, const std::string& got) const {
  throw FormatError(name_ + ": byte " + std::to_string(in_.offset()) + ": expected " + expected + ", got '" +
                    printable(got, 40) + "'; give a Kaldi model (final.mdl) or its transition model alone");
}

}  // namespace kaldi_punct

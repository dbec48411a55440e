// The values inside a Kaldi model file, in its binary and in its text form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "byte_cursor.h"

namespace kaldi_punct {

class ModelTokens {
 public:
  // name: of the file, for error texts.
  ModelTokens(const char* bytes, size_t n, std::string name);

  bool is_binary() const { return is_binary_; }

  std::string take_token();               // "<Topology>"
  void expect(const std::string& token);  // takes exactly this one
  int32_t take_int();
  void skip_float();
  std::vector<int32_t> take_ints();  // a vector, binary form only

  [[noreturn]] void fail(const std::string& expected, const std::string& got) const;

 private:
  void check_width(char width, const char* what);

  ByteCursor in_;
  std::string name_;
  bool is_binary_ = false;
};

}  // namespace kaldi_punct

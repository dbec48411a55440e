// Takes binary values from bytes in memory, never past their end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "errors.h"

namespace kaldi_punct {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "Kaldi's binary files are little-endian, and so must be the CPU");

class ByteCursor {
 public:
  // offset: where `begin` lies in the stream.
  ByteCursor(const char* begin, const char* end, uint64_t offset)
      : begin_(begin), at_(begin), end_(end), base_(offset) {}

  size_t left() const { return static_cast<size_t>(end_ - at_); }
  const char* at() const { return at_; }
  uint64_t offset() const { return base_ + static_cast<uint64_t>(at_ - begin_); }

  template <class T>
  T take() {
    need(sizeof(T));
    T value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  void skip(size_t n) {
    need(n);
    at_ += n;
  }

  void need(size_t n) const {
    if (n > left()) throw Truncated();
  }

 private:
  const char* begin_;
  const char* at_;
  const char* end_;
  uint64_t base_;
};

}  // namespace kaldi_punct

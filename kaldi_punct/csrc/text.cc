#include "text.h"

namespace kaldi_punct {
namespace {

// How many bytes a UTF-8 character has that begins so; 0 if none does.
size_t character_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

}  // namespace

std::string printable(std::string_view bytes, size_t most) {
  std::string s(bytes.substr(0, most));
  for (char& c : s)
    if (c < ' ' || c > '~') c = c == '\t' ? ' ' : '?';
  return bytes.size() > most ? s + "..." : s;
}

bool is_utf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const unsigned char first = static_cast<unsigned char>(bytes[i]);
    const size_t length = character_length(first);
    if (length == 0 || length > bytes.size() - i) return false;
    for (size_t j = 1; j < length; ++j)
      if ((static_cast<unsigned char>(bytes[i + j]) & 0xc0) != 0x80) return false;
    // Too long a form, a surrogate, or beyond the last code point: Python refuses these.
    const unsigned char second = length > 1 ? static_cast<unsigned char>(bytes[i + 1]) : 0x80;
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return false;
    if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return false;
    i += length;
  }
  return true;
}

}  // namespace kaldi_punct

// Bytes of unknown files inside error texts: these must be UTF-8, and short.
#pragma once

#include <string>
#include <string_view>

namespace kaldi_punct {

// The bytes with '?' for all that is not printable ASCII, and "..." if there are more than `most`.
std::string printable(std::string_view bytes, size_t most);

bool is_utf8(std::string_view bytes);

}  // namespace kaldi_punct

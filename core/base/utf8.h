// Text that JSON can hold.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringside {

/// Whether the bytes are UTF-8. Names of files and variables of the environment may be any bytes.
bool is_utf8(std::string_view text);

/// The number of characters of a text in UTF-8, which is that of its columns in a terminal unless
/// characters are wide.
std::size_t characters_of(std::string_view text);

/// Returns `text` itself if it is UTF-8. Otherwise replaces each byte that is not ASCII by its
/// number, written like "\xE9", so that names which differ in such a byte remain different.
std::string utf8_text(std::string_view text);

}  // namespace ringside

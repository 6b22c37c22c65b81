#include "experiments/runner/registry/user_code.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/data/regular_file.h"

namespace ringside::runner {
namespace {

constexpr std::string_view ending = ".py:";

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_name(std::string_view text) {
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), in_name);
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

/// "file.py:NAME", taken apart.
struct Named {
  std::string file, name;
};

Named named(std::string_view key, std::string_view text) {
  const auto at = text.rfind(ending);
  if (at != std::string_view::npos && is_name(text.substr(at + ending.size())))
    return {std::string(text.substr(0, at + ending.size() - 1)),
            std::string(text.substr(at + ending.size()))};
  throw Error("{} = '{}': write \"file.py:NAME\", the name being that of a function or class", key,
              text);
}

std::string content_of(std::string_view key, const std::string& path) {
  const RegularFile file(path, key);
  std::string content(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

bool has_word(std::string_view content, std::string_view word) {
  for (auto at = content.find(word); at != std::string_view::npos;
       at = content.find(word, at + 1)) {
    const auto end = at + word.size();
    if ((at == 0 || !in_name(content[at - 1])) && (end == content.size() || !in_name(content[end])))
      return true;
  }
  return false;
}

/// The functions and classes that the file defines at its outermost level, as "def hook" and
/// "class Gossip".
std::vector<std::string> defined_in(std::string_view content) {
  std::vector<std::string> out;
  while (!content.empty()) {
    const std::string_view line = content.substr(0, content.find('\n'));
    for (const std::string_view word : {"def ", "class "})
      if (line.starts_with(word)) {
        const auto end = std::find_if_not(line.begin() + word.size(), line.end(), in_name);
        out.emplace_back(line.begin(), end);
      }
    content.remove_prefix(std::min(content.size(), line.size() + 1));
  }
  return out;
}

bool brings(std::string_view content, std::string_view what) {
  const std::vector<std::string> defined = defined_in(content);
  return std::find(defined.begin(), defined.end(), what) != defined.end();
}

/// Adds the file of the code to those that the program reads; returns the file's content.
std::string add_file(OtherProgram& program, std::string_view key, const std::string& text) {
  const Named code = named(key, text);
  std::string content = content_of(key, code.file);
  if (!has_word(content, code.name) && content.find("import *") == std::string::npos)
    throw Error("{}: {} has no '{}'; it has {}", key, code.file, code.name,
                fmt::join(defined_in(content), ", "));
  Hash hash;
  hash.update(std::as_bytes(std::span(content)));
  const ProgramFile file{code.file, hash.digest()};
  if (std::find(program.files.begin(), program.files.end(), file) == program.files.end())
    program.files.push_back(file);
  return content;
}

}  // namespace

bool names_file(std::string_view text) { return text.find(ending) != std::string_view::npos; }

void add_user_code(OtherProgram& program, const UserCode& user) {
  std::string content;
  if (names_file(user.code)) content = add_file(program, user.key, user.code);
  const bool given = !user.definition.empty() && user.definition != no_definition;
  if (given) {
    const auto table = user.key.substr(0, user.key.rfind('.'));
    add_file(program, fmt::format("{}.definition", table), user.definition);
  }
  const bool defined = given || (user.definition.empty() && brings(content, user.brings));
  program.definition = defined ? DefinedBy::program : DefinedBy::nobody;
}

void check_settings(std::string_view key, std::string_view text) {
  for (std::string_view rest = text; !text.empty();) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || !is_name(trimmed(part.substr(0, equals))))
      throw Error("{} = '{}': write \"NAME=VALUE, NAME=VALUE\", as in \"ratio=0.01\"", key, text);
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace ringside::runner

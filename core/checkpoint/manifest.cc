#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/untrusted_json.h"
#include "core/checkpoint/checkpoint_format.h"

namespace ringside {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view format_name = "ringside checkpoint";
constexpr std::int64_t format_version = 1;
constexpr std::string_view last_member = "\n\"digests\": ";
constexpr std::size_t longest_manifest = 1 << 30, deepest = 64;
/// An object that keeps the order of its members takes time that is quadratic in their number.
constexpr std::size_t most_members = 4096;
constexpr std::size_t digest_digits = 32;

const json& member(const json& in, const char* name) {
  const auto found = in.find(name);
  if (found == in.end()) throw Error("'{}' is missing", name);
  return *found;
}

std::int64_t count_in(const json& in, const char* name) {
  const json& value = member(in, name);
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <=
                              static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                        : value.is_number_integer() && value.get<std::int64_t>() >= 0;
  if (!fits) throw Error("'{}' is {}, and not a number of things", name, text_of(value));
  return value.get<std::int64_t>();
}

std::string text_in(const json& in, const char* name) {
  const json& value = member(in, name);
  if (!value.is_string()) throw Error("'{}' is {}, and no text", name, text_of(value));
  return value.get<std::string>();
}

const json& list_in(const json& in, const char* name) {
  const json& value = member(in, name);
  if (!value.is_array()) throw Error("'{}' is {}, and no list", name, text_of(value));
  return value;
}

std::vector<std::string> digests_in(const json& in, std::int64_t bytes) {
  constexpr auto block = static_cast<std::int64_t>(digest_block);
  const json& list = list_in(in, "digests");
  const auto blocks = static_cast<std::size_t>(bytes / block + (bytes % block != 0 ? 1 : 0));
  if (list.size() != blocks)
    throw Error("{} digests are listed, but a file of {} bytes has {}", list.size(), bytes, blocks);
  std::vector<std::string> out;
  for (const json& digest : list) {
    if (!digest.is_string() || digest.get_ref<const std::string&>().size() != digest_digits)
      throw Error("the digest {} does not have {} digits", text_of(digest), digest_digits);
    out.push_back(digest.get<std::string>());
  }
  return out;
}

std::vector<SavedRange> ranges_in(const json& in, std::int64_t bytes) {
  std::vector<SavedRange> out;
  std::int64_t room = bytes / static_cast<std::int64_t>(sizeof(float));
  for (const json& entry : list_in(in, "ranges")) {
    SavedRange& range = out.emplace_back();
    range.key.name = text_in(entry, "name");
    if (entry.contains("replica")) range.key.replica = count_in(entry, "replica");
    range.begin = count_in(entry, "begin");
    range.count = count_in(entry, "count");
    check_range(range);
    if (range.count > room)
      throw Error("{} and the ranges before it do not fit into {} bytes", tensor_name(range),
                  bytes);
    room -= range.count;
  }
  return out;
}

void check_members(const json& value) {
  if (value.is_object() && value.size() > most_members)
    throw Error("an object has {} members, and the most are {}", value.size(), most_members);
  if (!value.is_structured()) return;
  for (const json& inner : value) check_members(inner);
}

std::vector<std::string> digests_of(std::string_view text) {
  BlockDigests digests;
  digests.add(std::as_bytes(std::span(text)));
  return digests.finish();
}

/// The end of a manifest whose other text is `text`.
std::string last_line(std::string_view text) {
  return fmt::format("{}{}\n}}\n", last_member.substr(1), json(digests_of(text)).dump());
}

/// Throws Error with the first byte that may have changed.
void check_digests(const std::string& path, std::string_view text) {
  const std::size_t end = text.rfind(last_member);
  if (end == std::string_view::npos)
    throw Error(
        "{}: byte {}: the manifest does not end with its digests: it was cut off or changed; copy "
        "it again or use another checkpoint",
        path, text.size());
  const std::string_view before = text.substr(0, end + 1), stored = text.substr(end + 1);
  const std::string expected = last_line(before);
  if (stored == expected) return;
  const auto [differs, other] =
      std::mismatch(expected.begin(), expected.end(), stored.begin(), stored.end());
  const auto at = static_cast<std::size_t>(differs - expected.begin());
  constexpr std::size_t digest_bytes = digest_digits + 3;  // with two quotes and a comma
  const std::size_t begin = last_member.size();            // of the first digest: behind "["
  const std::size_t block = at < begin ? 0 : (at - begin) / digest_bytes;
  throw Error(
      "{}: byte {}: what follows, or its digest at byte {}, has changed; copy the manifest again "
      "or use another checkpoint",
      path, std::min(block * digest_block, end), end + 1 + at);
}

Manifest manifest_in(const json& in, std::string_view text) {
  const auto format = in.find("format");
  if (format == in.end() || *format != format_name)
    throw Error("this is no manifest of a checkpoint");
  if (const std::int64_t version = count_in(in, "version"); version != format_version)
    throw Error(
        "its format has version {}, and this program reads version {}; use a program of that "
        "version",
        version, format_version);
  check_members(in);
  Manifest out;
  out.step = count_in(in, "step");
  out.parameters = count_in(in, "parameters");
  out.program = text_in(in, "program");
  member(in, "run");
  member(in, "scalars");
  const ordered_json ordered = ordered_json::parse(text);
  out.run = ordered.at("run");
  out.scalars = ordered.at("scalars");
  std::vector<std::string> names;
  for (const json& file : list_in(in, "files")) {
    out.files.push_back(checkpoint_file_from_json(file));
    names.push_back(out.files.back().name);
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    throw Error("{} is listed twice", *twice);
  check_no_overlaps(out.files);
  return out;
}

}  // namespace

ordered_json to_json(const CheckpointFile& file) {
  ordered_json ranges = ordered_json::array();
  for (const SavedRange& range : file.ranges) {
    ordered_json& entry = ranges.emplace_back(ordered_json{{"name", range.key.name}});
    if (range.key.replica >= 0) entry["replica"] = range.key.replica;
    entry["begin"] = range.begin;
    entry["count"] = range.count;
  }
  return {
      {"name", file.name}, {"bytes", file.bytes}, {"digests", file.digests}, {"ranges", ranges}};
}

CheckpointFile checkpoint_file_from_json(const json& in) {
  CheckpointFile out;
  out.name = text_in(in, "name");
  if (!is_rank_file_name(out.name))
    throw Error("{} is no name of a rank's file, such as {}", text_of(json(out.name)),
                rank_file_name(0));
  try {
    out.bytes = count_in(in, "bytes");
    out.digests = digests_in(in, out.bytes);
    out.ranges = ranges_in(in, out.bytes);
  } catch (const Error& error) {
    throw Error("{}: {}", out.name, error.what());
  }
  return out;
}

std::string with_digests(std::string text) {
  text += last_line(text);
  return text;
}

std::string manifest_text(const Manifest& manifest) {
  std::string out = "{\n";
  const auto add = [&](std::string_view name, const ordered_json& value) {
    out += fmt::format("\"{}\": {},\n", name,
                       value.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  };
  add("format", format_name);
  add("version", format_version);
  add("step", manifest.step);
  add("parameters", manifest.parameters);
  add("program", manifest.program);
  add("run", manifest.run);
  add("scalars", manifest.scalars);
  out += "\"files\": [";
  for (std::size_t i = 0; i < manifest.files.size(); ++i)
    out += (i == 0 ? "\n" : ",\n") + to_json(manifest.files[i]).dump();
  return with_digests(out + "\n],\n");
}

Manifest parse_manifest(const std::string& path, std::string_view text) {
  if (text.size() > longest_manifest)
    throw Error("{}: a manifest of {} bytes is too long; the longest has {}", path, text.size(),
                longest_manifest);
  check_digests(path, text);
  const json in = parse_json(path, text, deepest);
  try {
    return manifest_in(in, text);
  } catch (const Error& error) {
    throw Error("{}: {}", path, error.what());
  }
}

}  // namespace ringside

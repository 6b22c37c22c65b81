#include "core/base/untrusted_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/error.h"

namespace ringside {
namespace {

using nlohmann::json;

/// Looks through JSON before it is parsed. (A callback of json::parse() could check names too, but
/// makes the parser take time that is quadratic in the number of names.)
class Looker final : public json::json_sax_t {
 public:
  Looker(const std::string& path, std::size_t deepest) : path_(path), deepest_(deepest) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const json::string_t&) override { return true; }
  bool string(json::string_t&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(json::string_t& name) override {
    if (!names_.back().insert(name).second)
      throw Error("{}: its JSON names '{}' twice", path_, name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    throw Error("{}: its JSON cannot be read: {}", path_, error.what());
  }

 private:
  bool enter() {
    if (names_.size() == deepest_) throw Error("{}: its JSON is nested too deep", path_);
    names_.emplace_back();
    return true;
  }
  bool leave() {
    names_.pop_back();
    return true;
  }

  const std::string& path_;
  std::size_t deepest_;
  std::vector<std::set<std::string>> names_;  // of the objects and arrays that are open
};

}  // namespace

json parse_json(const std::string& path, std::string_view text, std::size_t deepest) {
  Looker looker(path, deepest);
  json::sax_parse(text, &looker);
  return json::parse(text);
}

std::string text_of(const json& value) {
  constexpr std::size_t longest = 80;
  // Characters that are not ASCII are written as \u, so that the text may be cut anywhere.
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > longest) text.replace(longest, std::string::npos, "...");
  return text;
}

}  // namespace ringside

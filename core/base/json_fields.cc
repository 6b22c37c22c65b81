#include "core/base/json_fields.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace ringside {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json json_of(const Choice& choice) { return choice.name(); }
ordered_json json_of(const NumberOrName& value) {
  return value.is_number() ? ordered_json(*value.number) : json_of(value.name);
}
ordered_json json_of(const ListOrName& value) {
  return value.is_list() ? ordered_json(*value.list) : json_of(value.name);
}
ordered_json json_of(const std::optional<double>* number) {
  return *number ? ordered_json(**number) : ordered_json();
}
ordered_json json_of(const Fields& fields) { return to_json(fields); }

ordered_json json_of(const Structs& structs) {
  if (!structs.is_list()) return structs.size() == 0 ? ordered_json() : to_json(structs[0]);
  ordered_json out = ordered_json::array();
  for (std::size_t i = 0; i < structs.size(); ++i) out.push_back(to_json(structs[i]));
  return out;
}

ordered_json json_of(const Table& table) {
  ordered_json out = ordered_json::object();
  for (const std::string& name : table.names()) out[name] = to_json(table[name]);
  return out;
}

template <class Value>
ordered_json json_of(const Value* value) {
  return *value;
}

/// Reads the value of one field; error messages contain the field's name.
class Reader {
 public:
  Reader(const json& in, std::string_view name, Absent absent)
      : in_(in), name_(name), absent_(absent) {}

  void operator()(const Choice& choice) const {
    const auto name = in_.get<std::string>();
    if (!choice.set(name))
      throw Error("{} = \"{}\": choose {}", name_, name, one_of(choice.names()));
  }
  void operator()(const NumberOrName& value) const {
    if (!in_.is_number()) return (*this)(value.name);
    value.name.set(value.as_number);
    *value.number = in_.get<double>();
  }
  void operator()(const ListOrName& value) const {
    value.list->clear();
    if (!in_.is_array()) return (*this)(value.name);
    value.name.set(value.as_list);
    in_.get_to(*value.list);
  }
  void operator()(std::optional<double>* number) const {
    number->reset();
    if (!in_.is_null()) *number = in_.get<double>();
  }
  void operator()(const Fields& fields) const { read_json(in_, fields, absent_); }
  void operator()(const Structs& structs) const {
    if (structs.is_list() && !in_.is_array()) in_.get<json::array_t>();  // throws
    structs.resize(0);  // no value of an earlier struct stays
    structs.resize(structs.is_list() ? in_.size() : in_.is_null() ? 0 : 1);
    for (std::size_t i = 0; i < structs.size(); ++i)
      read_json(structs.is_list() ? in_[i] : in_, structs[i], absent_);
  }
  void operator()(const Table& table) const {
    table.clear();
    for (const auto& [name, value] : in_.get<json::object_t>())
      std::visit(Reader(value, name, absent_), table[name]);
  }
  template <class Value>
  void operator()(Value* value) const {
    in_.get_to(*value);
  }

 private:
  const json& in_;
  std::string_view name_;
  Absent absent_;
};

}  // namespace

ordered_json to_json(const FieldValue& value) {
  return std::visit([](const auto& kept) { return json_of(kept); }, value);
}

ordered_json to_json(const Fields& fields) {
  ordered_json out = ordered_json::object();
  for (const Field& field : fields) out[std::string(field.name)] = to_json(field.value);
  return out;
}

void read_json(const json& in, const Fields& out, Absent absent) {
  for (const Field& field : out) {
    const std::string name(field.name);
    if (absent == Absent::keeps_default && in.is_object() && !in.contains(name)) continue;
    std::visit(Reader(in.at(name), field.name, absent), field.value);
  }
}

}  // namespace ringside

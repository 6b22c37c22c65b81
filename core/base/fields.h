// Names for the fields of a plain struct, given once and used everywhere: in TOML, `--set`, the
// JSON of plans and records, and the list of keys that suggests one for an unknown key.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/named_enum.h"

namespace ringside {

struct Field;
using Fields = std::vector<Field>;

/// A struct has named fields if this function is declared beside the struct and defined in the
/// struct's source file:
///
/// Fields fields_of(ModelConfig& config);
///
/// The default of a field is its value in a default-constructed struct.
template <class Struct>
concept HasFields = std::default_initializable<Struct> && requires(Struct& value) {
  { fields_of(value) } -> std::same_as<Fields>;
};

/// The structs with named fields that a std::vector or a std::optional holds.
class Structs {
 public:
  template <HasFields Struct>
  Structs(std::vector<Struct>* structs);
  template <HasFields Struct>
  Structs(std::optional<Struct>* structs);

  bool is_list() const { return is_list_; }
  std::size_t size() const { return size_(structs_); }
  /// New structs have default values. An optional becomes empty if `size` is 0 and holds one struct
  /// otherwise.
  void resize(std::size_t size) const { resize_(structs_, size); }
  /// The fields of struct `i`, valid until the container changes its size.
  Fields operator[](std::size_t i) const;

 private:
  void* structs_;
  bool is_list_;
  std::size_t (*size_)(const void*);
  void (*resize_)(void*, std::size_t);
  Fields (*at_)(void*, std::size_t);
};

/// A value for which files give either a number or one of the names of an enum, as in
/// compare.target_loss = 2.5 or "single". While the value is a number, the enum has the name
/// `as_number`, which files do not give.
struct NumberOrName {
  double* number;
  Choice name;
  std::string_view as_number;
  bool is_number() const { return name.name() == as_number; }
};

/// A value for which files give either a list of integers or one of the names of an enum, as in
/// train.shares = [3, 1] or "speed". While the value is a list, the enum has the name `as_list`,
/// which files do not give; while it is a name, the list is empty.
struct ListOrName {
  std::vector<std::int64_t>* list;
  Choice name;
  std::string_view as_list;
  bool is_list() const { return name.name() == as_list; }
};

class Table;

/// Access to the value of a field: a pointer to it, or, if the value is itself a struct, the fields
/// of that struct.
using FieldValue =
    std::variant<bool*, int*, std::int64_t*, double*, std::string*, Choice, NumberOrName,
                 ListOrName, std::optional<double>*, std::vector<std::string>*,
                 std::vector<std::int64_t>*, std::vector<double>*,
                 std::vector<std::pair<std::int64_t, std::int64_t>>*,
                 std::vector<std::pair<double, double>>*, Fields, Structs, Table>;

/// A std::map from names to values for which field_value() is defined.
class Table {
 public:
  template <class Value>
  Table(std::map<std::string, Value>* values);

  std::vector<std::string> names() const { return names_(values_); }
  void clear() const { clear_(values_); }
  /// The value with this name, which is added if the map does not have it.
  FieldValue operator[](const std::string& name) const;

 private:
  void* values_;
  std::vector<std::string> (*names_)(const void*);
  void (*clear_)(void*);
  void (*at_)(void*, const std::string&, FieldValue&);
};

/// Makes a FieldValue of a map's value. If files hold only one member of a struct in place of the
/// whole struct, an overload beside the struct returns this member.
template <class Value>
FieldValue field_value(Value& value) {
  return &value;
}

/// The numbers that a field may have; all of them are finite.
enum class Range : std::uint8_t { any, positive, not_negative, share };  // share: in (0, 1]

/// The rule of the range that the number breaks, such as "must be more than 0"; empty if the number
/// is in the range.
std::string_view broken_rule(Range range, double number);

/// One field of a struct; the struct must outlive it.
struct Field {
  std::string_view name;
  FieldValue value;
  std::string_view description{};
  Range range = Range::any;
};

/// The fields of a struct that is only read: the caller must not write through them.
template <HasFields Struct>
Fields fields_to_read(const Struct& value) {
  return fields_of(const_cast<Struct&>(value));
}

/// Throws Error if a number in one of the fields, or in structs that they hold, is not in the range
/// of its field. `table` is the name of the fields' table, as in "[train]"; messages name the
/// number "train.accumulation".
void require_ranges(const Fields& fields, const std::string& table);
/// The same for one field, whose full name is `key`.
void require_range(const Field& field, const std::string& key);

/// Whether a field holds one value: no struct, no list of structs and no map.
bool is_single(const FieldValue& value);

/// Whether both have the same names and equal values, in the same order.
bool equal(const Fields& a, const Fields& b);

}  // namespace ringside

#include "core/base/fields_of_containers.h"  // IWYU pragma: keep

// Names for the fields of a plain struct, given once and used everywhere: reading TOML, `--set`,
// plan.json, and the list of keys with which an unknown key is compared.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ringside {

/// A pointer to the value of a field.
using FieldValue = std::variant<bool*, std::int64_t*, double*, std::string*,
                                std::vector<std::string>*, std::vector<std::int64_t>*>;

/// One field of a struct; the struct must outlive it.
struct Field {
  std::string_view name;
  FieldValue value;
  std::string_view description;
};
using Fields = std::vector<Field>;

/// A struct has named fields if this function is declared beside the struct and defined in its
/// source:
///
/// Fields fields_of(ModelConfig& config);
///
/// The default of a field is its value in a default-constructed struct.
template <class Struct>
concept HasFields = std::default_initializable<Struct> && requires(Struct& value) {
  { fields_of(value) } -> std::same_as<Fields>;
};

/// The fields of a struct that is only read: the caller must not write through them.
template <HasFields Struct>
Fields fields_to_read(const Struct& value) {
  return fields_of(const_cast<Struct&>(value));
}

/// Whether both have the same names and equal values, in the same order.
bool equal(const Fields& a, const Fields& b);

}  // namespace ringside

// Enums whose values have names in files and on the command line.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace ringside {

using EnumNames = std::span<const std::string_view>;

/// The values of an enum have names if a function names_of() is declared beside the enum. The
/// function returns the names in the order of the values, which count from 0:
///
/// constexpr EnumNames names_of(Topology) { return topology_names; }
template <class Enum>
concept NamedEnum = std::is_enum_v<Enum> && requires(Enum value) {
  { names_of(value) } -> std::same_as<EnumNames>;
};

template <NamedEnum Enum>
constexpr std::string_view name_of(Enum value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

/// A name that a value had in earlier versions: files may still say it, and nothing writes it.
struct OldName {
  std::string_view old, now;
};

/// The value with this name; none if no value has the name. A function old_names_of() beside
/// names_of() returns a range of OldName whose old names are accepted too.
template <NamedEnum Enum>
constexpr std::optional<Enum> value_named(std::string_view name) {
  if constexpr (requires { old_names_of(Enum{}); })
    for (const OldName& one : old_names_of(Enum{}))
      if (one.old == name) name = one.now;
  const EnumNames names = names_of(Enum{});
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

/// The names as a phrase: "ipc or tcp", "pcie, switch or mesh".
std::string one_of(EnumNames names);

/// A pointer to an enum of any type, which reads and writes the enum by name. The enum must outlive
/// the choice.
class Choice {
 public:
  template <NamedEnum Enum>
  Choice(Enum* value)
      : value_(value),
        names_(names_of(Enum{})),
        get_([](const void* kept) { return name_of(*static_cast<const Enum*>(kept)); }),
        set_([](void* kept, std::string_view name) {
          const auto value_of_name = value_named<Enum>(name);
          if (value_of_name) *static_cast<Enum*>(kept) = *value_of_name;
          return value_of_name.has_value();
        }) {}

  EnumNames names() const { return names_; }
  std::string_view name() const { return get_(value_); }
  /// Changes nothing and returns false if no value has the name.
  bool set(std::string_view name) const { return set_(value_, name); }

 private:
  void* value_;
  EnumNames names_;
  std::string_view (*get_)(const void*);
  bool (*set_)(void*, std::string_view);
};

}  // namespace ringside

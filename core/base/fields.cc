#include "core/base/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/base/error.h"

namespace ringside {
namespace {

bool equal(const Choice& a, const Choice& b) { return a.name() == b.name(); }

bool equal(const NumberOrName& a, const NumberOrName& b) {
  return equal(a.name, b.name) && (!a.is_number() || *a.number == *b.number);
}

bool equal(const ListOrName& a, const ListOrName& b) {
  return equal(a.name, b.name) && *a.list == *b.list;
}

bool equal(const Structs& a, const Structs& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

bool equal(const FieldValue& a, const FieldValue& b);

bool equal(const Table& a, const Table& b) {
  const std::vector<std::string> names = a.names();
  return names == b.names() &&
         std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return equal(a[name], b[name]); });
}

bool equal(const FieldValue& a, const FieldValue& b) {
  return std::visit(
      []<class A, class B>(const A& x, const B& y) {
        if constexpr (!std::is_same_v<A, B>)
          return false;
        else if constexpr (std::is_pointer_v<A>)
          return *x == *y;
        else
          return equal(x, y);
      },
      a, b);
}

void require(const FieldValue& value, Range range, const std::string& key);

/// The numbers of a value, whose field has the range and the full name `key`.
struct InRange {
  Range range;
  const std::string& key;

  template <class Number>
  requires std::is_arithmetic_v<Number> &&(!std::is_same_v<Number, bool>)void operator()(
      const Number* number) const {
    if (const auto rule = broken_rule(range, static_cast<double>(*number)); !rule.empty())
      throw Error("{} = {} {}", key, *number, rule);
  }
  template <class Number>
  void operator()(const std::vector<Number>* numbers) const {
    for (const Number& number : *numbers) (*this)(&number);
  }
  template <class First, class Second>
  void operator()(const std::pair<First, Second>* pair) const {
    (*this)(&pair->first);
    (*this)(&pair->second);
  }
  void operator()(const std::optional<double>* number) const {
    if (*number) (*this)(&**number);
  }
  void operator()(const NumberOrName& value) const {
    if (value.is_number()) (*this)(value.number);
  }
  void operator()(const ListOrName& value) const { (*this)(value.list); }
  void operator()(const Fields& fields) const { require_ranges(fields, key); }
  void operator()(const Structs& structs) const {
    for (std::size_t i = 0; i < structs.size(); ++i) require_ranges(structs[i], key);
  }
  void operator()(const Table& table) const {
    for (const std::string& name : table.names()) require(table[name], range, key + "." + name);
  }
  void operator()(const bool*) const {}
  void operator()(const std::string*) const {}
  void operator()(const Choice&) const {}
};

void require(const FieldValue& value, Range range, const std::string& key) {
  std::visit(InRange{range, key}, value);
}

}  // namespace

std::string_view broken_rule(Range range, double number) {
  if (!std::isfinite(number)) return "must be finite";
  if (range == Range::positive && number <= 0) return "must be more than 0";
  if (range == Range::not_negative && number < 0) return "must not be negative";
  if (range == Range::share && (number <= 0 || number > 1))
    return "must be more than 0 and at most 1";
  return {};
}

void require_ranges(const Fields& fields, const std::string& table) {
  for (const Field& field : fields) require_range(field, fmt::format("{}.{}", table, field.name));
}

void require_range(const Field& field, const std::string& key) {
  require(field.value, field.range, key);
}

Fields Structs::operator[](std::size_t i) const { return at_(structs_, i); }

FieldValue Table::operator[](const std::string& name) const {
  FieldValue value;
  at_(values_, name, value);
  return value;
}

bool is_single(const FieldValue& value) {
  return !std::holds_alternative<Fields>(value) && !std::holds_alternative<Structs>(value) &&
         !std::holds_alternative<Table>(value);
}

bool equal(const Fields& a, const Fields& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Field& x, const Field& y) {
    return x.name == y.name && equal(x.value, y.value);
  });
}

}  // namespace ringside
